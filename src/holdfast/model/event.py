"""What comes to an agent and what goes out of the fleet: `Event` and `Action`.

Both are frozen: an event that has happened does not change. A message between agents is an Event
too. `Agent`, the third kind of class, is in `agent`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, dataclass_transform, get_args

import msgspec

from holdfast.model.annotations import Body
from holdfast.model.definition import (
    Definition,
    HoldfastMeta,
    Priority,
    check_choice,
    is_positive,
    schema_of,
)
from holdfast.model.keys import shortened
from holdfast.model.undoing import check_undo

__all__ = ["Action", "Definition", "Event", "Priority"]
EVENT_PRIORITIES = ("urgent", "normal")


class EventMeta(HoldfastMeta):
    class_keywords = ("priority",)

    def _define(cls, body: Body, keywords: Mapping[str, object]) -> Definition:
        above = getattr(cls, "__holdfast__", None)
        priority = keywords.get("priority", getattr(above, "priority", "normal"))
        check_choice(body, "priority", priority, EVENT_PRIORITIES)
        options: dict[str, object] = {} if priority == "normal" else {"priority": priority}
        schema = schema_of(cls, type(cls).kind, body, options)
        return Definition(schema.name, schema.kind, schema, body.place(), **options)  # type: ignore[arg-type]


class ActionMeta(HoldfastMeta):
    kind = "action"
    class_keywords = ("expires", "priority", "during_ground_stop")

    @classmethod
    def _check_methods(metacls, body: Body) -> None:
        super()._check_methods(body)
        check_undo(body, lambda found: isinstance(found, metacls))

    def _define(cls, body: Body, keywords: Mapping[str, object]) -> Definition:
        above = getattr(cls, "__holdfast__", None)
        expires = keywords.get("expires", getattr(above, "expires", None))
        priority = keywords.get("priority", getattr(above, "priority", "normal"))
        if expires is not None and not is_positive(expires):
            raise body.place().error(
                f"{body.class_name} has expires={shortened(expires)}: give the seconds after which "
                f"it must not be executed any more, above 0, or leave it out"
            )
        check_choice(body, "priority", priority, get_args(Priority))
        allowed = keywords.get("during_ground_stop", getattr(above, "during_ground_stop", False))
        if not isinstance(allowed, bool):
            raise body.place().error(
                f"{body.class_name} has during_ground_stop={shortened(allowed)}: give True for an "
                "action that is issued during a ground stop too, or leave it out"
            )
        seconds = None if expires is None else float(expires)  # type: ignore[arg-type]
        options: dict[str, object] = {"expires": seconds, "priority": priority}
        if allowed:
            options["during_ground_stop"] = True
        schema = schema_of(cls, type(cls).kind, body, options)
        return Definition(schema.name, schema.kind, schema, body.place(), **options)  # type: ignore[arg-type]


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
    class Event:
        """Something that happened, on its way to an agent. An urgent one overtakes what waits."""

        __holdfast__: ClassVar[Definition]
        __struct_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(cls, *, priority: Literal["urgent", "normal"] = "normal") -> None: ...

    @dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
    class Action:
        """A command to the world outside the fleet. `expires` are seconds after it was issued."""

        __holdfast__: ClassVar[Definition]
        __struct_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(
            cls,
            *,
            expires: float | None = None,
            priority: Priority = "normal",
            during_ground_stop: bool = False,
        ) -> None: ...

else:

    class Event(msgspec.Struct, metaclass=EventMeta):
        """Something that happened, on its way to an agent. An urgent one overtakes what waits."""

    class Action(msgspec.Struct, metaclass=ActionMeta):
        """A command to the world outside the fleet. `expires` are seconds after it was issued."""
