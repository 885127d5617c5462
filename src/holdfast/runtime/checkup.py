"""The checkup behind `holdfast doctor`: what a fleet's directory, its disk and its owners are like.

Reads only what is committed and disturbs nobody; the one thing it writes is a small file of its
own, to measure how long the disk takes to sync. What is damaged becomes a finding, not an error.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast

import apsw

from holdfast.engine.port import Limits, View, waiting_in
from holdfast.engine.sqlite.catalog import SqliteCatalog, check_root
from holdfast.engine.sqlite.engine import SqliteEngine
from holdfast.engine.sqlite.files import FORMAT, open_existing
from holdfast.engine.sqlite.folders import folder_of
from holdfast.engine.sqlite.keeping import KeepMark
from holdfast.engine.sqlite.segment import open_newest
from holdfast.engine.sqlite.standing import about
from holdfast.engine.stamping import next_stamp, system_clock
from holdfast.engine.urls import DEFAULT_URL, parse
from holdfast.errors import ClockJumped, HoldfastError, UsageError
from holdfast.runtime.reading import Reading, Untyped
from holdfast.stepping.frame import Frame
from holdfast.stepping.grounding import read_ground

Level = Literal["ok", "warn", "bad"]

SQLITE_FIXED = (3, 51, 3)  # before it, a checkpoint beside a writer could corrupt a WAL database
SYNCS_MEASURED = 8
SYNC_SECONDS_WARN = 0.020  # twice what a commit may take for 10 ms from event to action
WAITING_SECONDS_WARN = 5.0
WAITING_SECONDS_BAD = 60.0
CLOCK_SECONDS_WARN = 1.0


@dataclass(frozen=True)
class Finding:
    level: Level
    subject: str
    text: str
    advice: str = ""


class Checkup:
    def __init__(self, url: str) -> None:
        self._url = url
        wanted = parse(url)
        if wanted.kafka is not None:
            raise UsageError(
                f"{wanted.kafka.place}: doctor examines directories: `holdfast lag` says what "
                "waits, and the tools of Kafka how the brokers are"
            )
        if wanted.scheme == "memory":
            raise UsageError(f"{url}: lives in one process only, so there is nothing to examine")
        self.root: Path = wanted.root
        self.limits: Limits = wanted.limits

    def findings(self) -> Iterator[Finding]:
        yield self._library()
        directory = self._directory()
        yield directory
        if directory.level == "bad":
            return
        yield from self._guarded("disk", self._disk)
        yield from self._guarded("sync", self._sync)
        try:
            engine = SqliteEngine(self.root, self.limits)
        except HoldfastError as error:
            yield Finding("bad", "format", str(error))
            return
        try:
            yield from self._of_engine(engine)
        finally:
            engine.close()

    def _of_engine(self, engine: SqliteEngine) -> Iterator[Finding]:
        numbers = engine.catalog.layout.numbers
        yield Finding("ok", "format", f"format {FORMAT}, which this release reads and writes")
        names = {s.name for s in engine.catalog.schemas().values() if s.kind == "state"}
        agents = ", ".join(sorted(names)) or "no agents yet"
        yield Finding("ok", "fleet", f"{engine.catalog.fleet}: {agents}; {len(numbers)} partitions")
        holder = engine.holder.holder()
        yield self._holder(holder)
        for number in numbers:
            look = partial(self._partition, engine, number, holder)
            yield from self._guarded(f"partition {number}", look)
        yield from self._retired(engine)
        yield from self._archive(engine)
        yield from self._guarded("clock", lambda: self._clock(numbers))
        reading = Reading(engine, Untyped(engine.catalog.schemas))
        yield from self._guarded("dead letters", lambda: self._dead_letters(reading))
        yield from self._guarded("paused agents", lambda: self._paused(reading))
        yield from self._guarded("ground stop", lambda: self._ground_stop(reading))

    def _guarded(self, subject: str, look: Callable[[], Finding]) -> Iterator[Finding]:
        try:
            yield look()
        except (HoldfastError, OSError) as error:
            yield Finding("bad", subject, str(error))

    # The machine.

    def _library(self) -> Finding:
        text = apsw.sqlite_lib_version()
        if tuple(map(int, text.split("."))) >= SQLITE_FIXED:
            return Finding("ok", "SQLite", f"{text}, without the WAL bug of versions before 3.51.3")
        return Finding(
            "bad",
            "SQLite",
            f"{text}: a checkpoint beside a writer can corrupt data",
            "install apsw 3.51.3 or later",
        )

    def _directory(self) -> Finding:
        try:
            check_root(self.root)
        except HoldfastError as error:
            return Finding("bad", "directory", str(error))
        if not SqliteCatalog.exists(self.root):
            return Finding(
                "bad",
                "directory",
                f"{self.root}: no fleet here",
                "start one with `holdfast run fleet.py`, or name the right directory",
            )
        return Finding("ok", "directory", str(self.root))

    def _disk(self) -> Finding:
        status = os.statvfs(self.root)
        free = status.f_bavail * status.f_frsize
        reserve = self.limits.disk_reserve_bytes
        text = f"{_megabytes(free)} free, the reserve is {_megabytes(reserve)}"
        if free < reserve:
            return Finding("bad", "disk", f"{text}: nothing is accepted", "free some space")
        if free < 2 * reserve:
            return Finding("bad", "disk", f"{text}: sends are refused", "free some space")
        if free < 8 * reserve:
            return Finding("warn", "disk", text, "free some space before sends are refused")
        return Finding("ok", "disk", text)

    def _sync(self) -> Finding:
        taken = []
        with tempfile.NamedTemporaryFile(dir=self.root, prefix=".doctor-") as file:
            for _ in range(SYNCS_MEASURED):
                file.write(b"\0" * 4096)
                file.flush()
                started = time.perf_counter()
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - started)
        middle = sorted(taken)[SYNCS_MEASURED // 2]
        text = f"{middle * 1000:.1f} ms for a sync, {max(taken) * 1000:.1f} ms at most"
        if middle > SYNC_SECONDS_WARN:
            advice = "every send and every commit waits for one: use a faster disk, or send more"
            return Finding("warn", "sync", text, f"{advice} events at once")
        return Finding("ok", "sync", text)

    def _clock(self, numbers: Sequence[int]) -> Finding:
        now = system_clock()
        ahead = 0.0
        for number in numbers:
            segment = open_newest(folder_of(self.root, number) / "inbox")
            try:
                last = segment.head().stamp
            finally:
                segment.close()
            try:
                next_stamp(last, now, self.limits.clock_jump_seconds_max)
            except ClockJumped as error:
                return Finding("bad", "clock", str(error))
            ahead = max(ahead, last.wall - now.wall)
        if ahead > CLOCK_SECONDS_WARN:
            text = f"the last event was stamped {ahead:,.0f} s later than it is now"
            return Finding("warn", "clock", text, "set the clock right: until then time stands")
        return Finding("ok", "clock", "agrees with the stamps of the last events")

    # The fleet.

    def _holder(self, holder: int | None) -> Finding:
        if holder is None:
            where = "" if self._url == DEFAULT_URL else f" --engine {self._url}"
            advice = f"start it with `holdfast run fleet.py{where}`"
            return Finding("warn", "holder", "nobody runs this fleet; sends are kept", advice)
        return Finding("ok", "holder", f"process {holder} runs this fleet")

    def _partition(self, engine: SqliteEngine, number: int, holder: int | None) -> Finding:
        view = engine.view(number)
        head = view.head()
        position, lag = head.position, waiting_in(view, head)
        subject = f"partition {number}"
        if lag < 0:
            text = f"the inbox ends {-lag} before what was folded: a file was replaced"
            return Finding("bad", subject, text, "restore the whole directory from one copy")
        owner = view.owner() if holder is not None else ""  # it may live on and fold no more
        facts = f"{owner or 'no owner'}, position {position:,}, lag {lag:,}"
        unknown, waiting = self._waiting(engine, view, number, position) if lag else ("", 0.0)
        if lag:
            facts += f", oldest waits {waiting:,.1f} s"
        if unknown:
            advice = "run the newer program that defines it"
            return Finding("bad", subject, f"{facts}; held by {unknown}", advice)
        if not owner and holder is not None:
            return Finding("warn", subject, facts, "its worker is being started: look again")
        if holder is not None and waiting > WAITING_SECONDS_BAD:
            return Finding("bad", subject, facts, "see what its worker says on standard error")
        if waiting > WAITING_SECONDS_WARN:
            advice = "send slower or run more workers" if holder else "start the fleet"
            return Finding("warn", subject, facts, advice)
        return Finding("ok", subject, facts)

    def _retired(self, engine: SqliteEngine) -> Iterator[Finding]:
        """One line for all of them, and one for each that is bad."""
        bad = 0
        for number in engine.catalog.retired:
            look = partial(self._retired_one, engine, number)
            for finding in self._guarded(f"partition {number}", look):
                if finding.level == "bad":
                    bad += 1
                    yield finding
        if engine.catalog.retired and not bad:
            count = len(engine.catalog.retired)
            yield Finding("ok", "retired", f"{count:,} partitions, kept for history and actions")

    def _retired_one(self, engine: SqliteEngine, number: int) -> Finding:
        view = engine.view(number)
        view.check()
        position, following = view.head().position, view.inbox_next()
        if following != position:
            text = f"retired at {position:,}, but its inbox ends at {following:,}"
            advice = "restore the whole directory from one copy"
            return Finding("bad", f"partition {number}", text, advice)
        return Finding("ok", f"partition {number}", f"retired at {position:,}")

    def _archive(self, engine: SqliteEngine) -> Iterator[Finding]:
        """Only where somebody archives; by the marks that hold retention back."""
        numbers = (*engine.catalog.retired, *engine.catalog.layout.numbers)
        marks = {n: KeepMark(folder_of(self.root, n)).seen() for n in numbers}
        known = {number: mark for number, mark in marks.items() if mark is not None}
        if known:
            yield from self._guarded("archive", lambda: self._unarchived(engine, known))

    def _unarchived(self, engine: SqliteEngine, marks: dict[int, int]) -> Finding:
        events, waiting = 0, 0.0
        for number, mark in marks.items():
            view = engine.view(number)
            events += view.inbox_next() - mark
            for frame in view.frames(mark, 1)[:1]:
                waiting = max(waiting, time.time() - frame.stamp)
        text = f"{events:,} events are not archived yet, the oldest for {waiting:,.1f} s"
        advice = "see what the shipper says on standard error"
        if not events:
            return Finding("ok", "archive", "has every event")
        if waiting > WAITING_SECONDS_WARN:
            level: Level = "bad" if waiting > WAITING_SECONDS_BAD else "warn"
            return Finding(level, "archive", text, advice)
        return Finding("ok", "archive", text)

    def _waiting(
        self, engine: SqliteEngine, view: View, number: int, position: int
    ) -> tuple[str, float]:
        """What the oldest unfolded frame has that the owner does not know, and its age."""
        frames = view.frames(position, 1)
        if not frames:
            return "", 0.0  # folded meanwhile
        generation = generation_of(self.root, number)
        ids = set(cast("list[int]", Frame.decode(frames[0].frame).values("schema") or []))
        schemas = engine.catalog.schemas()
        newer = [schemas[i].name for i in sorted(ids) if i > generation > 0 and i in schemas]
        return (f"event {newer[0]}" if newer else ""), time.time() - frames[0].stamp

    def _dead_letters(self, reading: Reading) -> Finding:
        waiting = [x for x in reading.dead_letters() if not x.redriven]
        if not waiting:
            return Finding("ok", "dead letters", "none")
        text = f"{len(waiting):,}, the last {waiting[-1].id} of {waiting[-1].agent}"
        advice = "see `holdfast dead-letters`; mend the cause, then redrive them"
        return Finding("warn", "dead letters", text, advice)

    def _ground_stop(self, reading: Reading) -> Finding:
        heads = [view.head() for view in reading.views().values()]
        found = [ground for head in heads if (ground := read_ground(head.ground_stop))]
        if not found:
            return Finding("ok", "ground stop", "none")
        by = f" by {found[0].by}" if found[0].by else ""
        text = f"in force in {len(found)} of {len(heads)} partitions{by}: {found[0].why}"
        return Finding("warn", "ground stop", text, "`holdfast ground-stop --lift` ends it")

    def _paused(self, reading: Reading) -> Finding:
        paused = reading.paused()
        if not paused:
            return Finding("ok", "paused agents", "none")
        held = sum(each.held for each in paused)
        text = f"{len(paused):,}, which hold {held:,} events"
        return Finding("warn", "paused agents", text, "see `holdfast paused`, then resume them")


def generation_of(root: Path, number: int) -> int:
    """How new the classes are that have folded a partition; 0 before the first."""
    connection = open_existing(folder_of(root, number) / "state.db")
    try:
        return int(about(connection)["generation"])
    finally:
        connection.close()


def _megabytes(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"
