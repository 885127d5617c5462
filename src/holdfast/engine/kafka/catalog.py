"""The catalog topic: what a fleet's data says of itself. All who read it come to the same result.

One partition, never compacted. The first record makes the fleet, new (`Founded`) or as it was
elsewhere (`Planted`); each of the others adds a schema or a layout. Order decides: of two records
that make a fleet the first counts, a schema has the number that its first record gives it, and of
two layouts that replace the same one, the first counts.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

import msgspec
from confluent_kafka import Message

from holdfast.engine.kafka.feed import Feed, Place
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.engine.kafka.topics import catalog_topic
from holdfast.engine.registering import to_write
from holdfast.errors import DamagedData, Fenced, NewerFormat, TimedOut, UsageError
from holdfast.model.keys import Layout
from holdfast.model.schema import Schema

FORMAT = 2  # since 2 anonymous sources have a bound: an older release would refuse others
_ANONYMOUS_UNSAID = 100_000  # of a fleet that an older release has made
REFRESH_SECONDS = 15.0  # brokers answer within milliseconds, or a new leader is being chosen

Write = Callable[[str, int, bytes], int]  # topic, partition, value -> offset


class Founded(msgspec.Struct, tag="fleet", frozen=True):
    format: int
    fleet: str
    born: str
    partitions: int
    sources_max: int  # all copies of a partition have to refuse the same
    anonymous_sources_max: int = _ANONYMOUS_UNSAID


class Planted(msgspec.Struct, tag="planted", frozen=True):
    """A fleet that goes on from elsewhere. Its partitions begin with the base copies of `born`."""

    format: int
    fleet: str
    born: str
    first: int
    slots: list[tuple[int, int]]
    retired: dict[int, tuple[int, int]]
    incarnations: dict[int, str]
    schemas: dict[int, dict[str, object]]
    sources_max: int
    anonymous_sources_max: int = _ANONYMOUS_UNSAID

    @property
    def layout(self) -> Layout:
        return Layout(tuple(range(*slots) for slots in self.slots), self.first)


class _Formatted(msgspec.Struct):
    format: int = FORMAT


class Described(msgspec.Struct, tag="schema", frozen=True):
    schema: dict[str, object]
    renews: bool = False  # the options of one that is known


class LaidOut(msgspec.Struct, tag="layout", frozen=True):
    """New partitions in the place of those numbered on from `instead_of`."""

    instead_of: int
    partitions: int
    cuts: dict[int, int]  # how far the inbox of each old one was read: what came later is forwarded


class Intake(msgspec.Struct, tag="intake", frozen=True):
    number: int
    closed: bool


class Forwarded(msgspec.Struct, tag="forwarded", frozen=True):
    """What came too late for a retired partition has gone to the new ones, up to this offset."""

    number: int
    offset: int


Entry = Founded | Planted | Described | LaidOut | Intake | Forwarded
_decode = msgspec.json.Decoder(Entry).decode


class KafkaCatalog:
    """It follows the topic from its beginning, so that looking costs nothing."""

    full = False

    def __init__(self, settings: KafkaSettings, feed: Feed, write: Write) -> None:
        self._settings = settings
        self._feed = feed
        self._write = write
        self._place = Place(catalog_topic(settings.prefix or ""), 0)
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._founded: Founded | Planted | None = None
        self._layout = Layout.even(1)
        self._retired: dict[int, range] = {}
        self.closed_intakes: frozenset[int] = frozenset()
        self.forwarded: dict[int, int] = {}  # of retired partitions: from where on it is not yet
        self.next_offset = 0
        self.closed = False
        feed.follow(self._place, self)

    @property
    def fleet(self) -> str:
        return self.founded.fleet

    @property
    def founded(self) -> Founded | Planted:
        if self._founded is None:
            raise UsageError(
                f"{self._settings.place}: no fleet here yet: start it with holdfast run"
            )
        return self._founded

    @property
    def exists(self) -> bool:
        return self._founded is not None

    @property
    def layout(self) -> Layout:
        with self._lock:
            return self._layout

    @property
    def retired(self) -> dict[int, range]:
        with self._lock:
            return self._retired

    def incarnation(self, number: int) -> str:
        founded = self.founded
        planted = founded.incarnations if isinstance(founded, Planted) else {}
        return planted.get(number) or f"{number}-{founded.born}"

    def begins_with_a_base(self, number: int) -> bool:
        """Whether its topics do not have all of it: it was planted, or made by a rescaling."""
        founded = self.founded
        return isinstance(founded, Planted) or number >= founded.partitions

    def first_of(self, number: int) -> int:
        """The number of the first partition that was laid out together with this one."""
        with self._lock:
            if number >= self._layout.numbers.stop:
                return self._layout.numbers.stop  # one that is being made
            if number >= self._layout.first:
                return self._layout.first
            starts = [n for n, slots in self._retired.items() if slots.start == 0 and n <= number]
        return max(starts)

    # Reading and writing.

    def refresh(self) -> None:
        """All that was written before this call is known after it."""
        end = self._feed.end(self._place)
        if not self._feed.wait_until(self._place, end, REFRESH_SECONDS):
            raise TimedOut(f"{self._settings.place}: the catalog could not be read: try again")

    def take(self, records: Sequence[Message]) -> None:
        for record in records:
            offset = record.offset() or 0
            if offset >= self.next_offset:
                self._take(record.value() or b"", offset)
                self.next_offset = offset + 1

    def _take(self, value: bytes, offset: int) -> None:
        try:
            self._check_format(value)
            entry = _decode(value)
        except msgspec.MsgspecError as error:
            raise DamagedData(
                f"{self._place.topic}, offset {offset}: no entry of a catalog ({error}): somebody "
                "else writes there; restore the fleet from a snapshot"
            ) from None
        with self._lock:
            if isinstance(entry, (Founded, Planted)):
                self._found(entry)
            elif isinstance(entry, Described):
                schema = Schema.from_json(entry.schema)
                ids = {each.fingerprint: number for number, each in self._schemas.items()}
                number = ids.get(schema.fingerprint, max(self._schemas, default=0) + 1)
                if entry.renews or number not in self._schemas:
                    self._schemas[number] = schema
            elif isinstance(entry, Intake):
                without = self.closed_intakes - {entry.number}
                self.closed_intakes = without | {entry.number} if entry.closed else without
            elif isinstance(entry, Forwarded):
                known = self.forwarded.get(entry.number, 0)
                self.forwarded[entry.number] = max(known, entry.offset)
            elif entry.instead_of == self._layout.first and self._is_closed():
                self._retired = {**self._retired, **self._layout.slots_by_number}
                self._layout = Layout.even(entry.partitions, first=self._layout.numbers.stop)
                self.forwarded |= entry.cuts

    def _check_format(self, value: bytes) -> None:
        """Before anything else: the fields of a newer one may be others."""
        found = msgspec.json.decode(value, type=_Formatted).format
        if found > FORMAT:
            raise NewerFormat(
                f"{self._settings.place}: format {found}, this release reads {FORMAT}: "
                "install the release of Holdfast that wrote it"
            )

    def _found(self, entry: Founded | Planted) -> None:
        if self._founded is not None:
            return
        self._founded = entry
        if isinstance(entry, Founded):
            self._layout = Layout.even(entry.partitions)
            return
        self._layout = entry.layout
        self._retired = {number: range(*slots) for number, slots in entry.retired.items()}
        self._schemas = {n: Schema.from_json(body) for n, body in entry.schemas.items()}

    def _put(self, entry: Entry) -> None:
        self._check_open()
        self._write(self._place.topic, 0, msgspec.json.encode(entry))

    def found(self, fleet: str, partitions: int) -> None:
        """Make the fleet, unless somebody else does at the same moment."""
        limits = self._settings.limits
        bounds = limits.sources_max, limits.anonymous_sources_max
        self._put(Founded(FORMAT, fleet, uuid.uuid4().hex[:12], partitions, *bounds))
        self.refresh()

    def plant(self, entry: Planted) -> bool:
        """Whether this was the record that made the fleet."""
        self._put(entry)
        self.refresh()
        return self.founded.born == entry.born

    def _is_closed(self) -> bool:
        """Who claims a partition opens its intake: then a layout that comes later does not count,
        since its children know nothing of what is committed from there on."""
        return self.closed_intakes.issuperset(self._layout.numbers)

    def lay_out(self, partitions: int, cuts: dict[int, int]) -> None:
        before = self.layout.first
        self._put(LaidOut(before, partitions, cuts))
        self.refresh()
        if self.layout.first == before:
            raise Fenced(
                f"{self._settings.place}: somebody claimed a partition meanwhile, so nothing was "
                "changed: stop all workers and rescale again"
            )

    def set_intake(self, number: int, *, closed: bool) -> None:
        self.refresh()  # a rescaling counts on who begins: it must not believe old news
        if (number in self.closed_intakes) != closed:
            self._put(Intake(number, closed))
            self.refresh()

    def note_forwarded(self, number: int, offset: int) -> None:
        self._put(Forwarded(number, offset))
        self.refresh()

    def schemas(self) -> dict[int, Schema]:
        if not self.closed:
            self.refresh()
        with self._lock:
            return dict(self._schemas)

    def register(self, schemas: Sequence[Schema], *, renew: bool = False) -> dict[str, int]:
        self._check_open()
        stored = self.schemas()
        if new := to_write(schemas, stored, renew):
            for schema in new:
                self._put(Described(schema.to_json(), renew))
            stored = self.schemas()
        return {schema.fingerprint: number for number, schema in stored.items()}

    def _check_open(self) -> None:
        if self.closed:
            raise UsageError(f"{self._settings.place}: this handle is closed: open another")
