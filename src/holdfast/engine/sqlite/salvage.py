"""Salvage: which events and states of a damaged directory are intact, and why the others are not.

Reads only. Nothing is opened in place that SQLite would write beside, so not even its side files
change: a file with a WAL is copied first. Of a fleet that runs it tells of some moment, not of one
commit. Repairing is not done here: restore what is named from a copy.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote

import apsw

from holdfast.engine.sqlite.blocks import list_blocks, named
from holdfast.engine.sqlite.catalog import RESCALED_FORMAT
from holdfast.engine.sqlite.checks import check_index, check_structure, verified, verified_frame
from holdfast.engine.sqlite.files import check_format, explained, has_table, newest_of, wal_bytes
from holdfast.engine.sqlite.folders import folder_of
from holdfast.engine.sqlite.ledger import DERIVED, KEYS
from holdfast.engine.sqlite.segment import SegmentName
from holdfast.engine.sqlite.standing import columns_of
from holdfast.errors import HoldfastError
from holdfast.stepping.blocks import Block, keys_in
from holdfast.stepping.frame import Frame
from holdfast.stepping.lane import in_lane
from holdfast.stepping.records import read_delta

REASONS_MAX = 20  # per file: whoever reads this needs the kind of damage, not every row
_COPY_BYTES = 1024 * 1024
_MAIN_FILE = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
Row = tuple[object, ...]
_Problems = (apsw.Error, HoldfastError, UnicodeDecodeError, ValueError, OSError)


class Span(NamedTuple):
    """Positions from `first` on, before `next`, without a gap."""

    first: int
    next: int


@dataclass
class FileReport:
    """What one file still holds. Without damages everything in it is as it was written."""

    path: Path
    facts: list[str] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)
    readable: bool = False
    partitions: list[int] = field(default_factory=list)  # of the catalog, retired ones too
    events: list[Span] = field(default_factory=list)  # of a segment
    next: int | None = None  # of a segment: where its head says that it ends
    urgent: int = 0  # the same of its lane
    states_intact: int = 0  # of a state file
    states_damaged: int = 0

    def blame(self, reason: object) -> None:
        text = " ".join(str(reason).split())
        short = text.partition(": damaged (")[2].partition("): nothing was")[0] or text
        if short not in self.damages and len(self.damages) < REASONS_MAX:
            self.damages.append(short)


@dataclass
class Report:
    root: Path
    files: list[FileReport] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        return not any(file.damages for file in self.files)

    def lines(self) -> Iterator[str]:
        """One line per file with what is intact, one more for each damage."""
        for file in self.files:
            mark = "bad" if file.damages else "ok"
            what = "; ".join(file.facts) or ("nothing" if file.readable else "unreadable")
            yield f"{mark:<4}  {file.path.relative_to(self.root)}  {what}"
            for reason in file.damages:
                yield f"      {reason}"


def salvage(root: Path) -> Report:
    """Look at every file of a fleet's directory, whatever state it is in."""
    report = Report(root)
    catalog = FileReport(root / "fleet.db")
    report.files.append(catalog)
    _look(catalog, _catalog)
    for folder in _folders(root, catalog):
        report.files += _inbox(folder)
        state = FileReport(folder / "state.db")
        _look(state, partial(_state, _witnessed(folder / "committed")))  # first: commits go on
        report.files.append(state)
    return report


def _folders(root: Path, catalog: FileReport) -> list[Path]:
    """Those the catalog knows. If it is damaged, all: a rescaling that was killed leaves some."""
    numbers = {int(p.name[1:]) for p in root.glob("p[0-9][0-9][0-9]*") if p.name[1:].isdigit()}
    if not catalog.damages:
        numbers = set()
    return [folder_of(root, number) for number in sorted({*numbers, *catalog.partitions})]


def _look(report: FileReport, at: Callable[[FileReport, apsw.Connection], None]) -> None:
    """Open the file so that nothing is written. What goes wrong is noted and ends the look."""
    with tempfile.TemporaryDirectory(prefix="holdfast-salvage-") as place:
        try:
            with explained(report.path):
                connection = _open(report.path, Path(place))
                try:
                    connection.execute("SELECT * FROM sqlite_schema").fetchall()
                    report.readable = True
                    _check(report, connection)
                    at(report, connection)
                finally:
                    connection.close()
        except _Problems as error:
            report.blame(error)


def _open(path: Path, place: Path) -> apsw.Connection:
    if not path.exists():
        raise ValueError("the file is missing")
    if not wal_bytes(path):
        address = f"file:{quote(str(path.absolute()))}?immutable=1"
        return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    shutil.copyfile(f"{path}-wal", place / f"{path.name}-wal")
    _copy_unlocked(path, place / path.name)
    return apsw.Connection(str(place / path.name))


def _copy_unlocked(path: Path, target: Path) -> None:
    """Through SQLite: a plain close of its file would drop the locks this process has on it."""
    source = apsw.VFSFile("unix", str(path), [_MAIN_FILE, 0])
    try:
        size = source.xFileSize()
        with open(target, "wb") as file:
            for offset in range(0, size, _COPY_BYTES):
                file.write(source.xRead(min(_COPY_BYTES, size - offset), offset))
    finally:
        source.xClose()


def _check(report: FileReport, connection: apsw.Connection) -> None:
    """Format and structure: whatever they say, the rows are looked at all the same."""
    connection.execute("PRAGMA cell_size_check=ON")
    newest = RESCALED_FORMAT if report.path.name == "fleet.db" else newest_of(report.path)
    for look in (partial(check_format, newest=newest), check_structure):
        try:
            look(connection, report.path)
        except _Problems as error:
            report.blame(error)


def _rows(report: FileReport, connection: apsw.Connection, query: str, key: str) -> list[Row]:
    """Rows from both ends, as far as the tree can be walked. The query yields no text to decode."""
    found: dict[object, Row] = {}
    for order in ("ASC", "DESC"):
        columns = ", ".join(f"{name} {order}" for name in key.split(", "))
        try:
            for row in connection.execute(f"{query} ORDER BY {columns}"):
                found[row[: len(key.split(", "))]] = row
            break
        except _Problems as error:
            report.blame(error)
    return list(found.values())


# The catalog.


def _catalog(report: FileReport, connection: apsw.Connection) -> None:
    for table, name in (("about", "facts"), ("slots", "partitions"), ("schemas", "schemas")):
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        for row in rows:
            verified(report.path, f"a row of {table}", row)
        if table == "about":
            report.facts += [f"{row[0]} {row[1]!r}" for row in rows]
        else:
            report.facts.append(f"{len(rows)} {name}")
        if table == "slots":
            report.partitions = [cast(int, row[0]) for row in rows]


# Inboxes.


def _inbox(folder: Path) -> list[FileReport]:
    seen = _witnessed(folder / "appended")  # first, as appends go on
    names = _segments(folder)
    if not names:
        return [FileReport(folder / "inbox", damages=["the inbox has no segment"])]
    reports = [FileReport(folder / "inbox" / str(name)) for name in names]
    for report in reports:
        _look(report, _segment)
    oldest = min(_segments(folder), default=names[0])  # what retention took meanwhile is no loss
    if oldest > names[-1]:
        return _inbox(folder)
    gone = sum(name < oldest for name in names)
    names, reports = names[gone:], reports[gone:]
    for report, name, following in zip(reports, names, names[1:], strict=False):
        if following.number != name.number + 1:
            report.blame(f"{following.number - name.number - 1} segments after it are missing")
        elif report.next is not None and report.next != following.first:
            report.blame(f"it ends at {report.next}, the next one begins at {following.first}")
    end = reports[-1].next
    if end is not None and (end := end + reports[-1].urgent) < seen:
        reports[-1].blame(f"events {end} to {seen} were acknowledged and are not here")
    return reports


def _segments(folder: Path) -> list[SegmentName]:
    return sorted(n for p in folder.glob("inbox/*.seg") if (n := SegmentName.parse(p.name)))


def _segment(report: FileReport, connection: apsw.Connection) -> None:
    _segment_head(report, connection)
    frames = "SELECT first, count, stamp, frame, sum FROM frames"
    urgent = 0
    for row in sorted(_rows(report, connection, frames, "first"), key=lambda r: cast(int, r[0])):
        try:
            verified_frame(report.path, f"the frame at position {row[0]}", row)
        except HoldfastError as error:
            report.blame(error)
        else:
            if in_lane(cast(int, row[0])):
                urgent += 1
            else:
                _extend(report.events, cast(int, row[0]), cast(int, row[1]))
    count = sum(span.next - span.first for span in report.events)
    spans = ", ".join(f"{span.first} to {span.next}" for span in report.events)
    report.facts.append(f"{count:,} events" + (f", positions {spans}" if spans else ""))
    if urgent:
        report.facts.append(f"{urgent:,} urgent events")
    for gap in _gaps(report):
        report.blame(f"events {gap.first} to {gap.next} are lost")
    _ledger(report, connection)


def _gaps(report: FileReport) -> Iterator[Span]:
    """What lies between the name of a segment, its intact events, and the end its head tells."""
    name = SegmentName.parse(report.path.name)
    edge = 0 if name is None else name.first
    for span in report.events:
        if span.first > edge:
            yield Span(edge, span.first)
        edge = max(edge, span.next)
    if report.next is not None and report.next > edge:
        yield Span(edge, report.next)


def _extend(spans: list[Span], first: int, count: int) -> None:
    if spans and spans[-1].next == first:
        spans[-1] = Span(spans[-1].first, first + count)
    else:
        spans.append(Span(first, first + count))


def _segment_head(report: FileReport, connection: apsw.Connection) -> None:
    try:
        row = connection.execute("SELECT * FROM head").fetchone()
        if row is not None:
            values = cast(list[int], verified(report.path, "the head", row))
            report.next, report.urgent = values[2], values[6] >> 2
    except _Problems as error:
        report.blame(error)


def _ledger(report: FileReport, connection: apsw.Connection) -> None:
    derived = [table for table in DERIVED if has_table(connection, table)]
    for table in (*KEYS, *derived):
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            verified(report.path, f"a row of {table}", row)


# States.


def _state(seen: int, report: FileReport, connection: apsw.Connection) -> None:
    _state_head(report, connection, seen)
    _states(report, connection)
    for table, columns in _OUTPUTS.items():
        if has_table(connection, table):
            _outputs(report, connection, table, columns)


def _state_head(report: FileReport, connection: apsw.Connection, seen: int) -> None:
    try:
        row = connection.execute("SELECT * FROM head").fetchone()
        if row is None:
            raise ValueError("the head is missing")
        head = cast(Sequence[int], verified(report.path, "the head", row))
        report.facts.append(f"folded up to {head[1]}")
        if head[6] < seen:
            report.blame(f"commits {head[6] + 1} to {seen} are not here")
        deltas = connection.execute("SELECT count(*) FROM delta").get
        wanted = head[-2 if "notes" in columns_of(connection, "head") else -1]
        if deltas != wanted:
            report.blame(f"of {wanted} deltas of states {deltas} are here")
    except _Problems as error:
        report.blame(error)


def _states(report: FileReport, connection: apsw.Connection) -> None:
    """Agents by their newest image that can be found; an older one counts as damaged."""
    intact: dict[tuple[str, str], bool] = {}
    base = (
        "SELECT CAST(agent AS BLOB), CAST(key AS BLOB), version, schema, state, extras, updated, "
        "sum FROM base"
    )
    for row in _rows(report, connection, base, "agent, key"):
        name = tuple(cast(bytes, part or b"").decode(errors="replace") for part in row[:2])
        try:
            verified(report.path, f"the state of {name[0]}/{name[1]}", (*name, *row[2:]))
            intact[name[0], name[1]] = True
        except HoldfastError as error:
            intact[name[0], name[1]] = False
            report.blame(error)
    if has_table(connection, "blocks"):
        intact |= _blocks(report, connection)
    for row in _rows(report, connection, "SELECT id, frame, sum FROM delta", "id"):
        try:
            verified_frame(report.path, f"delta {row[0]} of states", row)
            for record in read_delta(Frame.decode(cast(bytes, row[1]))):
                intact[record.agent, record.key] = True
                if record.gone:
                    del intact[record.agent, record.key]
        except HoldfastError as error:
            report.blame(error)
    report.states_intact = sum(intact.values())
    report.states_damaged = len(intact) - report.states_intact
    report.facts.append(f"{report.states_intact:,} states")


def _blocks(report: FileReport, connection: apsw.Connection) -> dict[tuple[str, str], bool]:
    """Who was in a damaged block cannot be told."""
    intact: dict[tuple[str, str], bool] = {}
    columns = "SELECT CAST(agent AS BLOB), bucket, frame, sum FROM blocks"
    for row in _rows(report, connection, columns, "agent, bucket"):
        place = (cast(bytes, row[0] or b"").decode(errors="replace"), cast(int, row[1]))
        try:
            verified_frame(report.path, named(place), (*place, *row[2:]))
            block = Block.decode(cast(bytes, row[2]))
            intact |= {(block.agent, key): True for key in keys_in(block)}
        except HoldfastError as error:
            report.blame(error)
    try:
        list_blocks(connection, report.path)
    except _Problems as error:
        report.blame(error)
    return intact


# Columns that end in a frame and its checksum, or in a checksum of the whole row.
_OUTPUTS = {
    "actions": "first, count, now, frame, sum",
    "journal": "first, count, now, frame, sum",
    "outbox": "destination, first, count, frame, sum",
    "letters": "id, body, sum - redriven",
    "answers": "position, now, body, sum",
    "calls": "number, id, body, sum",
    "commits": "first, count, now, notes, sum",
    "undone": "id, key, now, why, sum",  # of older releases
    "fates": "id, key, now, why, kind, who, action, sum",
    "sent": "destination, next, sum",
    "about": "name, value, sum",
}


def _outputs(report: FileReport, connection: apsw.Connection, table: str, columns: str) -> None:
    look = verified_frame if ", frame, " in columns else verified
    key = {"outbox": "id", "undone": "number", "fates": "number", "about": "name"}.get(
        table, columns.partition(",")[0]
    )
    count = 0
    try:
        for row in connection.execute(f"SELECT {columns} FROM {table} ORDER BY {key}").fetchall():
            look(report.path, f"{table} {row[0]}", row)
            count += 1
        check_index(connection, report.path, table)
    except _Problems as error:
        report.blame(error)
    if table not in ("sent", "about", "commits") and count:
        report.facts.append(f"{count:,} {table}")


def _witnessed(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() else 0
