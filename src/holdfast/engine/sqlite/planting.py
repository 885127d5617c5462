"""Planting: a whole new directory from captured contents, made beside its place and moved there.

Until the last step there is nothing under the directory's name. Who is killed before leaves a
folder beside it that has no catalog or not its name; the next attempt removes it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.engine.contents import Contents, Facts, PartitionContents
from holdfast.engine.faults import FaultPoints
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.sqlite import segment
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.checks import check_of, frame_check
from holdfast.engine.sqlite.fates import PUT_FATE, fate_row
from holdfast.engine.sqlite.files import discard, explained, make_durably, publish, sync_path
from holdfast.engine.sqlite.folders import make_folder
from holdfast.engine.sqlite.locks import HolderLock
from holdfast.engine.sqlite.segment import InboxHead
from holdfast.engine.sqlite.standing import begin_state, put_about
from holdfast.engine.sqlite.state import call_row
from holdfast.errors import HoldfastError, UsageError
from holdfast.stepping.lane import in_lane

_pack = msgspec.msgpack.Encoder().encode


def beside(root: Path) -> Path:
    """Where a directory grows before it gets its name. Under the same parent, to be renamed."""
    return root.with_name(f".{root.name}.planting")


def check_place(root: Path) -> None:
    check_root(root)
    if root.exists() and any(root.iterdir()):
        raise UsageError(f"{root}: is not empty: name a directory that is new or empty")


def plant(root: Path, contents: Contents, faults: FaultPoints) -> None:
    """1 check the place, 2 partitions, 3 the catalog, 4 the name; each durable before the next."""
    check_place(root)
    root = root.resolve()  # where a link leads to
    place = beside(root)
    with explained(place):
        make_durably(place)
        lock = HolderLock(place / "create.lock")
        lock.acquire()  # another one who plants here at this moment is refused
        try:
            _clear(place)
            for facts in contents.retired:
                plant_retired(place, facts)
            for partition in contents.partitions:
                plant_partition(place, partition)
            faults("plant.inside")
            _plant_catalog(place, contents)
            sync_path(place)
            faults("plant.after")
            check_place(root)
            place.rename(root)
            sync_path(root.parent)
        except Exception:
            with suppress(OSError):
                shutil.rmtree(place)
            raise
        finally:
            lock.release()


def _clear(place: Path) -> None:
    """What an attempt left that was killed. The catalog goes first: without it nothing opens."""
    for name in ("fleet.db", "fleet.db-wal", "fleet.db-shm"):
        (place / name).unlink(missing_ok=True)
    for entry in place.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "create.lock":
            entry.unlink()


def plant_retired(place: Path, facts: Facts) -> None:
    folder = make_folder(place, facts.number)
    head = InboxHead(facts.incarnation, facts.next, facts.stamp, closed=True, urgent=facts.urgent)
    segment.plant(folder / "inbox", head, facts.next, [], Dedupe({}, {}, {}), {})
    path = folder / "state.db"
    connection = begin_state(path, facts.incarnation, facts.generation, facts.head)
    with explained(path):
        put_about(connection, {"retired": 1})
    publish(connection, path)


def plant_partition(place: Path, partition: PartitionContents) -> None:
    facts = partition.facts
    folder = make_folder(place, facts.number)
    _plant_inbox(folder / "inbox", partition)
    path = folder / "state.db"
    connection = begin_state(path, facts.incarnation, facts.generation, facts.head)
    execute, many = connection.execute, connection.executemany
    try:
        with explained(path):
            rows = ((*r, check_of(*r)) for r in partition.records())
            many("INSERT INTO base VALUES(?, ?, ?, ?, ?, ?, ?, ?)", rows)
            for letter, redriven in partition.letters():
                body = _pack(letter)
                check = check_of(letter.id, body) + redriven  # as a redrive leaves it
                execute(
                    "INSERT INTO letters VALUES(?, ?, ?, ?)", (letter.id, redriven, body, check)
                )
            for call in partition.calls():
                execute("INSERT INTO calls VALUES(?, ?, ?, ?)", call_row(call))
            many(PUT_FATE, map(fate_row, partition.fates()))
            for *columns, frame in partition.outbox():
                execute(
                    "INSERT INTO outbox(destination, first, count, frame, sum) "
                    "VALUES(?, ?, ?, ?, ?)",
                    (*columns, frame, frame_check(columns, frame)),
                )
            for sent in facts.sent_next.items():
                execute("INSERT INTO sent VALUES(?, ?, ?)", (*sent, check_of(*sent)))
        publish(connection, path)
    except BaseException:
        discard(connection, path)
        raise


def _plant_inbox(folder: Path, partition: PartitionContents) -> None:
    facts = partition.facts
    frames = partition.frames()
    oldest = next(frames, None)
    first = facts.next if oldest is None or in_lane(oldest.first) else oldest.first
    head = InboxHead(facts.incarnation, facts.next, facts.stamp, urgent=facts.urgent)
    waiting = () if oldest is None else (one for run in ([oldest], frames) for one in run)
    segment.plant(folder, head, first, waiting, partition.dedupe(), facts.marks)


def _plant_catalog(place: Path, contents: Contents) -> None:
    retired = {facts.number: facts.slots for facts in contents.retired}
    if sorted(retired) != list(range(contents.layout.first)):
        raise HoldfastError(f"{place}: partitions before {contents.layout.first} are missing")
    SqliteCatalog.plant(place, contents.fleet, contents.layout, retired, contents.schemas)
