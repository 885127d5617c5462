"""Folding a recorded inbox in one of the ways that must not matter, and noting what came of it.

`alone` folds one input per commit, with care. `in_batches` folds fast, in batches cut at random.
Both note a digest after each commit; in a window both keep whole pictures, to name what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from holdfast.model.fleet import FleetModel
from holdfast.model.rng import Random
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.testing.bench import Taken
from holdfast.testing.checking.limiting import TimeLimit
from holdfast.testing.checking.recording import Inbox, Recording
from holdfast.testing.pictures import Digest, Painter, Picture

BATCH_EVENTS = 64


class Mark(msgspec.Struct):
    """Where a commit ended: inputs taken since the beginning, position reached, digest of all."""

    number: int
    position: int
    digest: int


class Detail(msgspec.Struct):
    """One commit in full, and the last input it took."""

    number: int
    subject: str  # agent/key
    event: str
    handler: str  # as in Drone.moved, or ""
    place: str
    picture: Picture


class Failure(msgspec.Struct):
    """An event that a handler raised for: legal, but worth a note."""

    number: int
    subject: str
    event: str
    handler: str
    error: str


class Fold(msgspec.Struct):
    """What came of one inbox. `stopped` says why it ended early."""

    partition: int
    first: int  # the position it begins at
    marks: list[Mark] = []
    details: list[Detail] = []
    failures: list[Failure] = []
    stopped: str = ""


class Window(msgspec.Struct):
    """Whole pictures from input `after` on, to `to`. `position` is where the batch before ends;
    `batch_to` asks for one batch from there instead of single inputs."""

    partition: int
    after: int
    to: int
    position: int
    batch_to: int | None = None


class Folding:
    """One inbox on one bench."""

    def __init__(
        self,
        fleet: FleetModel,
        recording: Recording,
        inbox: Inbox,
        window: Window | None,
        limit: TimeLimit,
    ) -> None:
        self.bench = recording.bench(fleet, inbox)
        self.fold = Fold(inbox.partition, inbox.first)
        self._inbox = inbox
        self._window = window
        self._painter = Painter(self.bench.codebook)
        self._digest = Digest()
        self._limit = limit
        self._began = self.bench.taken
        self._paused: set[tuple[str, str]] = set()

    @property
    def number(self) -> int:
        return self.bench.taken - self._began

    def _inputs(self) -> Iterator[Inputs]:
        for stored in self._inbox.stored():
            yield read_inputs(stored, self.bench.codebook)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever ends the fold ends it in order: what was noted until then still counts."""
        with self._limit:
            try:
                yield
            except (Exception, MemoryError) as error:
                reason = f"{type(error).__name__}: {error}"
                self.fold.stopped = f"after {self.number} inputs: {reason}"

    # One by one.

    def alone(self) -> Fold:
        with self._guarded():
            for inputs in self._inputs():
                self._each(inputs)
                if self._window is not None and self.number >= self._window.to:
                    break
        return self.fold

    def _each(self, inputs: Inputs) -> None:
        self._limit.rearm()
        for commit, taken in self.bench.one_by_one(inputs):
            self._note(commit, taken)
            self._note_failure(commit, taken)
            self._limit.rearm()

    # In batches.

    def in_batches(self, seed: int) -> Fold:
        with self._guarded():
            if self._window is not None and self._window.position == self._inbox.first:
                self._narrow(self._window)
                return self.fold
            random = Random(seed)
            batch: list[Inputs] = []
            for part in self._parts(random):
                batch.append(part)
                end = part.first + len(part)
                if self._window is not None and end >= self._window.position:
                    self._batch(batch)
                    self._narrow(self._window)
                    return self.fold
                if random.randint(1, 4) == 1:
                    self._batch(batch)
                    batch = []
            self._batch(batch)
        return self.fold

    def _parts(self, random: Random) -> Iterator[Inputs]:
        """Frames, cut into pieces of random size."""
        for inputs in self._inputs():
            start = 0
            while start < len(inputs):
                stop = min(len(inputs), start + random.randint(1, BATCH_EVENTS))
                yield inputs.part(start, stop)
                start = stop

    def _batch(self, batch: Sequence[Inputs]) -> None:
        if batch:
            self._limit.rearm()
            for commit in self.bench.step_to_end(batch):
                self._note(commit, None)

    def _narrow(self, window: Window) -> None:
        """From the last commit that was equal on: single inputs, or one batch of a given end."""
        rest: list[Inputs] = []
        for inputs in self._inputs():
            end = inputs.first + len(inputs)
            if end <= self.bench.position:
                continue
            part = inputs.part(max(0, self.bench.position - inputs.first), len(inputs))
            if window.batch_to is None:
                self._each(part)
                if self.number >= window.to:
                    return
            elif part.first < window.batch_to:
                rest.append(part.part(0, min(len(part), window.batch_to - part.first)))
        self._batch(rest)

    # Notes.

    def _note(self, commit: Commit, taken: Taken | None) -> None:
        picture = self._painter.picture(commit)
        window = self._window
        if window is None:
            self._digest.add(picture)
            digest = self._digest.value()
            self.fold.marks.append(Mark(self.number, self.bench.position, digest))
        elif window.after < self.number:
            self.fold.details.append(self._detail(picture, taken))

    def _detail(self, picture: Picture, taken: Taken | None) -> Detail:
        if taken is None:
            return Detail(self.number, "", "", "", "", picture)
        handler = taken.handler
        return Detail(
            self.number,
            f"{taken.agent}/{taken.key}",
            taken.origin if taken.event is None else repr(taken.event),
            "" if handler is None else f"{taken.agent}.{handler.name}",
            "" if handler is None else f"{handler.place.file}:{handler.place.line}",
            picture,
        )

    def _note_failure(self, commit: Commit, taken: Taken) -> None:
        errors = [letter.error for letter in commit.letters if letter.trace]
        at = (taken.agent, taken.key)
        cell = self.bench.stepper.kinds[taken.agent].paused.get(taken.key)
        if cell is None:
            self._paused.discard(at)
        elif at not in self._paused:
            self._paused.add(at)
            errors.append(cell.beside().paused)
        if taken.event is None:
            return  # an operator's command
        handler = taken.agent if taken.handler is None else f"{taken.agent}.{taken.handler.name}"
        self.fold.failures += [
            Failure(self.number, f"{taken.agent}/{taken.key}", repr(taken.event), handler, error)
            for error in errors
        ]
