"""Where a definition stands, and what its annotations mean.

Annotations may be strings (`from __future__ import annotations`), also in classes inside functions,
where the names they use are locals. They are resolved while the class is made, because only then
are those locals at hand. Every mistake found then is a DefinitionError that begins with the user's
file and line.
"""

import sys
import typing
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar

from holdfast.errors import DefinitionError

_QUOTES = "'\""


@dataclass(frozen=True)
class Place:
    file: str
    line: int

    def error(self, message: str) -> DefinitionError:
        return DefinitionError(f"{self.file}:{self.line}: {message}")


class Fields(dict[str, object]):
    """The annotations of a class body, with the line of each."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}

    def __setitem__(self, name: str, annotation: object) -> None:
        self.lines[name] = sys._getframe(1).f_lineno
        super().__setitem__(name, annotation)


class Body(dict[str, object]):
    """The namespace of a class while its body runs.

    It notes the line of every name, so that messages need no source text (there is none in a
    notebook or an exec), and what a name meant before it was given again: Python would forget the
    first of two handlers of one name without a word.
    """

    def __init__(self, name: str, frame: FrameType) -> None:
        super().__init__()
        self.class_name = name
        self.file = frame.f_code.co_filename
        self.line = frame.f_lineno
        self.scope = Scope(frame)
        self.lines: dict[str, int] = {}
        self.replaced: dict[str, object] = {}

    def __setitem__(self, name: str, value: object) -> None:
        if name == "__annotations__" and type(value) is dict:
            value = Fields()
        if name in self:
            self.replaced[name] = self[name]
        self.lines[name] = sys._getframe(1).f_lineno
        super().__setitem__(name, value)

    @property
    def fields(self) -> Mapping[str, object]:
        annotations = self.get("__annotations__", {})
        return annotations if isinstance(annotations, dict) else {}

    def place(self, name: str | None = None) -> Place:
        """Where a field or method of the class stands, or the class itself."""
        annotations = self.fields
        line = annotations.lines.get(name or "") if isinstance(annotations, Fields) else None
        return Place(self.file, line or self.lines.get(name or "", self.line))

    def resolve_fields(self) -> dict[str, object]:
        """The types of the fields of this body, ClassVars left out."""
        types: dict[str, object] = {}
        for name, annotation in self.fields.items():
            place, what = self.place(name), f"{self.class_name}.{name}"
            kind = self.scope.resolve(annotation, what, place, own=self)
            if typing.get_origin(kind) is not ClassVar and kind is not ClassVar:
                types[name] = kind
        return types


class Scope:
    """The names that a class statement can see: its module and the functions around it."""

    def __init__(self, frame: FrameType) -> None:
        self.module = frame.f_globals
        self.locals: list[dict[str, Any]] = []
        inner = frame.f_code.co_qualname
        around: FrameType | None = frame
        while around is not None:
            name = around.f_code.co_qualname
            encloses = inner == name or inner.startswith(f"{name}.")
            if encloses and around.f_globals is self.module and around.f_locals is not self.module:
                self.locals.append(dict(around.f_locals))
            around = around.f_back

    def resolve(
        self,
        annotation: object,
        what: str,
        place: Place,
        own: Mapping[str, object],
        module: dict[str, Any] | None = None,
    ) -> object:
        """The type behind an annotation. `own` are the names of the class body itself, `module`
        those of a function that was written elsewhere."""
        visible = ChainMap[str, Any](dict(own), *self.locals)
        # A class carries the annotation, because only there ClassVar is allowed.
        carrier = type("carrier", (), {"__annotations__": {"it": annotation}})
        try:
            hints = typing.get_type_hints(
                carrier, module or self.module, dict(visible), include_extras=True
            )
        except NameError as error:
            raise place.error(
                f"{what} is annotated {_text(annotation)}, but {error.name!r} is not known here: "
                f"import it, or define it above this class (an import under TYPE_CHECKING does "
                f"not count)"
            ) from error
        except Exception as error:
            raise place.error(
                f"{what} is annotated {_text(annotation)}, which is not a type: {error}"
            ) from error
        return hints["it"]


def _text(annotation: object) -> str:
    if isinstance(annotation, str):
        return f"`{annotation.strip(_QUOTES)}`"  # quotes inside a string annotation say nothing
    return f"`{annotation!r}`"
