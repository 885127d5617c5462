"""Classes by name, for those who have none: the schemas stored with the data say what they are."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from holdfast.errors import UsageError
from holdfast.model.fates import MADE_HERE
from holdfast.model.schema import Field, Kind, Schema, UntypedReader
from holdfast.runtime.sending import check_sendable
from holdfast.runtime.stored import Schemas, StoredSchemas, is_urgent
from holdfast.stepping.codebook import EVENT_BYTES_MAX


class _Forms:
    """The classes of one look at what is stored."""

    def __init__(self, stored: Schemas) -> None:
        self.stored = stored
        self.newest = {(schema.kind, schema.name): i for i, schema in sorted(stored.items())}
        self._readers: dict[int, UntypedReader] = {}

    def pack(self, number: int, values: Mapping[str, object]) -> bytes:
        schema = self.stored[number]
        check_fields(schema, values)
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = UntypedReader(schema)
        try:
            row = reader.pack(values)
        except UnicodeError as error:
            text = f"{schema.name}: a value is no text ({error}): send it as UTF-8"
            raise UsageError(text) from None
        except OverflowError as error:
            text = f"{schema.name}: a number is too large to be stored ({error})"
            raise UsageError(text) from None
        if len(row) > EVENT_BYTES_MAX:
            raise UsageError(
                f"{schema.name} of {len(row):,} bytes exceeds the bound of {EVENT_BYTES_MAX:,}: "
                "store large data elsewhere and send a reference"
            )
        return row


class Names:
    """The classes that the data knows, by name.

    Each is sent in the version that was the newest when it was sent first, until a newer one is
    needed: workers of the program before may still run.
    """

    def __init__(self, fleet: str, stored: StoredSchemas) -> None:
        self._fleet = fleet
        self._stored = stored
        self._seen = _Forms({})
        self._sent: dict[tuple[Kind, str], int] = {}  # versions

    def check_agent(self, name: str) -> None:
        self._find("state", name, f"no agent {name!r} in fleet {self._fleet!r}")

    def event(self, name: str, kind: Kind = "event") -> tuple[int, Schema]:
        forms, number = self._form(name, kind)
        return number, forms.stored[number]

    def of_kind(self, kind: Kind) -> list[str]:
        return [schema.name for schema in self.schemas(kind)]

    def schemas(self, kind: Kind) -> list[Schema]:
        """The newest version of each class, by name."""
        forms = self._forms(self._stored.current())
        return [forms.stored[i] for (of, _), i in sorted(forms.newest.items()) if of == kind]

    def seems_urgent(self, event: str) -> bool:
        """As far as is known without a look at the data, which may take a while."""
        forms = self._seen
        number = forms.newest.get(("event", event))
        return number is not None and is_urgent(forms.stored[number])

    def pack(
        self, name: str, values: Mapping[str, object], kind: Kind = "event"
    ) -> tuple[int, bytes]:
        """An event, or an action, as (schema id, row), checked against the stored types."""
        check_sendable(name)
        forms, number = self._form(name, kind)
        newest = forms.newest[kind, name]
        try:
            return number, forms.pack(number, values)
        except UsageError:
            if number == newest:
                raise
        row = forms.pack(newest, values)  # raises what that one has to say
        self._sent[kind, name] = newest
        return newest, row

    def _form(self, name: str, kind: Kind) -> tuple[_Forms, int]:
        """The version that is sent, and the look it was found in."""
        forms, newest = self._find(kind, name, f"no {kind} {name!r} in fleet {self._fleet!r}")
        number = self._sent.setdefault((kind, name), newest)
        return forms, number if number in forms.stored else newest  # others may have looked later

    def _find(self, kind: Kind, name: str, complaint: str) -> tuple[_Forms, int]:
        forms = self._forms(self._stored.current())
        found = forms.newest.get((kind, name))
        if found is None:
            forms = self._forms(self._stored.renewed())  # a program may have brought it since
            found = forms.newest.get((kind, name))
        if found is None:
            # What only the fold or a call makes nobody means to send.
            known = [each for each in self.of_kind(kind) if each not in MADE_HERE]
            raise UsageError(f"{complaint}: {suggestion(name, known)}")
        return forms, found

    def _forms(self, stored: Schemas) -> _Forms:
        forms = self._seen
        if forms.stored is not stored:
            forms = self._seen = _Forms(stored)
        return forms


def suggestion(name: str, known: Sequence[str]) -> str:
    """The known names, with the one that was probably meant in front."""
    if not known:
        return "there is none yet; `holdfast run fleet.py` stores the classes"
    close = difflib.get_close_matches(name, known, 1, 0.5) or [
        each for each in known if each.lower() == name.lower()
    ]
    others = ", ".join(each for each in known if each not in close)
    if not close:
        return f"there is {others}"
    return f"did you mean {close[0]}?" + (f" There is also {others}" if others else "")


def check_fields(schema: Schema, values: Mapping[str, object]) -> Mapping[str, Field]:
    """The fields by name; a value for a field that is none of them is refused."""
    fields = {field.name: field for field in schema.fields}
    for name in values:
        if name not in fields:
            known = suggestion(name, list(fields)) if fields else "it has no fields"
            raise UsageError(f"{schema.name} has no field {name!r}: {known}")
    return fields
