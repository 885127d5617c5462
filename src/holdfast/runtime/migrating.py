"""Migrating stored states to the classes of today, while nobody folds.

A script says what an old state becomes; without one the classes' own way (defaults, `upcast`) is
taken, so that an `upcast` can be removed afterwards. A state that has the form of its class already
is left alone, which makes the command safe to repeat after a crash. Events are not touched: they
are history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.engine.port import Claim, Engine, Granted, no_images
from holdfast.engine.urls import open_engine
from holdfast.errors import HoldfastError, SchemaError, UsageError
from holdfast.model.agent import Agent
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import shortened
from holdfast.model.schema import Kind, RowReader, Schema, UntypedReader
from holdfast.runtime.alone import hold_alone
from holdfast.runtime.loading import line_of, module_from_file
from holdfast.runtime.naming import check_fields
from holdfast.runtime.schemas import check_classes, register, states_in_use
from holdfast.stepping.commit import Commit, Record
from holdfast.stepping.records import delta_frame

Script = Callable[[str, str, dict[str, object]], dict[str, object] | None]
COMMIT_BYTES = 32 * 1024 * 1024  # half of what a frame may hold; one commit for most partitions

_pack = msgspec.msgpack.Encoder().encode


class Migrated(NamedTuple):
    """How many states of a class there are, and how many got another form."""

    agent: str
    states: int
    changed: int


def load_script(path: Path) -> Script:
    """`def migrate(agent, key, state)` of a file; mistakes in it are one line with their place."""
    found = getattr(module_from_file(path, "migrate(agent, key, state)"), "migrate", None)
    if not callable(found):
        raise UsageError(
            f"{path}: defines no `migrate`: write `def migrate(agent: str, key: str, "
            "state: dict) -> dict | None`"
        )

    def checked(agent: str, key: str, state: dict[str, object]) -> dict[str, object] | None:
        fields = ", ".join(state)
        try:
            result: object = found(agent, key, state)
        except Exception as error:
            raise SchemaError(
                f"{path}{line_of(error, str(path))}: migrate failed on {agent}/{key}: "
                f"{type(error).__name__}: {error}; it gets the fields {fields}"
            ) from error
        if result is not None and not isinstance(result, dict):
            raise SchemaError(
                f"{path}: migrate returned {shortened(result)} for {agent}/{key}: return a dict "
                "of field values, or None to keep the state"
            )
        return result

    return checked


def migrate(
    fleet: FleetModel, url: str, script: Script | None = None, *, dry_run: bool = False
) -> list[Migrated]:
    """1 check the classes, 2 try every state, 3 claim, 4 convert and commit, per partition.

    Nothing is written before every state could be converted; the script therefore sees each state
    twice and has to answer the same.
    """
    engine = open_engine(url, fleet.name)
    try:
        hold_alone(engine, url, "migrated")
        kinds: tuple[Kind, ...] = ("event", "action", *(() if script else ("state",)))
        stored = engine.catalog.schemas()
        check_classes(fleet, stored, fleet.schemas(), states_in_use(engine), kinds)
        conversion = Conversion(fleet, stored, script)
        tally = Tally(fleet)
        for number in engine.catalog.layout.numbers:
            tally.count(engine.view(number).records(), conversion)
        if not dry_run:
            _write(engine, fleet, conversion)
        return tally.result()
    finally:
        engine.close()


class Tally:
    def __init__(self, fleet: FleetModel) -> None:
        self._states = dict.fromkeys(sorted(fleet.agents), 0)
        self._changed = dict.fromkeys(self._states, 0)

    def count(self, records: Iterable[Record], conversion: Conversion) -> None:
        for record in records:
            changed = conversion.row(record) is not None
            self._states[record.agent] += 1
            self._changed[record.agent] += changed

    def result(self) -> list[Migrated]:
        return [Migrated(name, n, self._changed[name]) for name, n in self._states.items()]


class Conversion:
    """From a stored state to a row of the class of today."""

    def __init__(self, fleet: FleetModel, stored: dict[int, Schema], script: Script | None) -> None:
        self._fleet = fleet
        self._stored = stored
        self._script = script
        self._readers: dict[int, RowReader[Agent]] = {}

    def row(self, record: Record) -> bytes | None:
        """The new row, or None where the state has its form already."""
        cls = self._fleet.agents.get(record.agent)
        if cls is None:
            raise SchemaError(
                f"{record.agent}/{record.key} is stored, but the fleet has no agent "
                f"{record.agent}: add the class, with other fields if you like"
            )
        stored = self._stored[record.schema]
        if stored.fingerprint == cls.__holdfast__.schema.fingerprint:
            return None
        if self._script is not None:
            values = UntypedReader(stored).row(record.state)
            wanted = self._script(record.agent, record.key, values)
            if wanted is not None:
                return self._made(record, cls, wanted)
        return self._upcasted(record, cls, stored)

    def _made(self, record: Record, cls: type[Agent], values: dict[str, object]) -> bytes:
        """The script's values, the class's defaults for the rest, checked by the class."""
        target = cls.__holdfast__.schema
        reader = UntypedReader(target)
        try:
            check_fields(target, values)
            row = reader.pack({**reader.row(_pack(cls())), **values})
            msgspec.msgpack.decode(row, type=cls)
        except (HoldfastError, msgspec.ValidationError) as error:
            raise SchemaError(f"migrate({record.agent}/{record.key}): {error}") from error
        return row

    def _upcasted(self, record: Record, cls: type[Agent], stored: Schema) -> bytes:
        try:
            reader = self._readers.get(record.schema)
            if reader is None:
                reader = self._readers[record.schema] = RowReader(cls, stored)
            return _pack(reader.row(record.state))
        except SchemaError as error:
            if self._script is None:
                raise
            raise SchemaError(
                f"migrate kept {record.agent}/{record.key} as it is, but {error}"
            ) from error


def _write(engine: Engine, fleet: FleetModel, conversion: Conversion) -> None:
    codebook, generation = register(fleet, engine.catalog)
    ids = {name: codebook.id_of(cls) for name, cls in fleet.agents.items()}
    every = engine.catalog.layout.numbers
    # All claims before the first commit: newer classes in any partition refuse the whole.
    granted = list(engine.assignments(every, generation))
    for change in granted:
        if isinstance(change, Granted):
            _write_partition(engine, change.claim, conversion, ids)


def _write_partition(
    engine: Engine, claim: Claim, conversion: Conversion, ids: dict[str, int]
) -> None:
    head = engine.load(claim).head
    states = engine.view(claim.partition).records()
    for records in _batches(_converted(states, conversion, ids)):
        after = head._replace(commits=head.commits + 1)
        delta = delta_frame(records).encode()
        engine.commit([(claim, Commit(before=head, head=after, records=records, delta=delta))])
        engine.compact(claim, no_images)
        head = after


def _converted(
    records: Iterable[Record], conversion: Conversion, ids: dict[str, int]
) -> Iterator[Record]:
    for record in records:
        row = conversion.row(record)
        if row is not None:
            # No event came: version, timers and the time of the last event stay.
            yield record._replace(schema=ids[record.agent], state=row)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.state) + len(record.extras) + 200
        if size > COMMIT_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
