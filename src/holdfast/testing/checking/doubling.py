"""Doubling: every event of a handler that claims to be idempotent is folded twice in a row.

The claim holds if the second delivery leaves every field, timer and held event of the agent as the
first left it, and emits nothing but what the first emitted: the same actions and the same messages
again, or fewer. The version of the agent and the ids of actions count deliveries and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.model.fleet import FleetModel
from holdfast.stepping.commit import Commit
from holdfast.stepping.inputs import Inputs, read_inputs
from holdfast.testing.bench import Taken
from holdfast.testing.checking.limiting import TimeLimit
from holdfast.testing.checking.recording import Inbox, Recording
from holdfast.testing.pictures import VERSION, Difference, Painter, Picture, difference

_encode = msgspec.msgpack.Encoder().encode


class Broken(msgspec.Struct):
    """A claim that does not hold, by the first event that showed it."""

    handler: str
    place: str
    subject: str
    event: str
    difference: Difference


class Doubling:
    def __init__(
        self, fleet: FleetModel, recording: Recording, inbox: Inbox, limit: TimeLimit
    ) -> None:
        self._bench = recording.bench(fleet, inbox)
        self._inbox = inbox
        self._painter = Painter(self._bench.codebook)
        self._limit = limit
        self.doubled = 0
        self.broken: dict[str, Broken] = {}

    def run(self) -> None:
        with self._limit:
            for stored in self._inbox.stored():
                inputs = read_inputs(stored, self._bench.codebook)
                for row in range(len(inputs)):
                    self._row(inputs.part(row, row + 1))

    def _row(self, row: Inputs) -> None:
        """One input, after the timers that are due before it; each again if it claims so."""
        for commit, taken in self._steps(row):
            handler = taken.handler
            paused = self._bench.stepper.kinds[taken.agent].paused
            failed = bool(commit.letters) or taken.key in paused
            if handler is None or not handler.idempotent or failed or taken.event is None:
                continue
            again = row
            if taken.origin == "reply" and not commit.closed:
                continue  # the call was answered before: nobody has taken it
            if taken.origin in ("timer", "reply"):  # the same once more would not be taken
                cls = self._bench.fleet.agents[taken.agent]
                frame = self._bench.frame([(cls, taken.key, taken.event)])
                again = self._bench.read(frame.encode(), self._bench.stepper.head.now)
            self._again(taken, self._painter.picture(commit), again)

    def _steps(self, row: Inputs) -> Iterator[tuple[Commit, Taken]]:
        """Until the row itself was taken, which comes last; positions may move in between."""
        while True:
            self._limit.rearm()
            step = next(self._bench.one_by_one(row.at(self._bench.position)))
            yield step
            if step[0].journalled is None:
                return

    def _again(self, taken: Taken, first: Picture, row: Inputs) -> None:
        self.doubled += 1
        subject = f"{taken.agent}/{taken.key}"
        for commit, _ in self._steps(row):
            if commit.journalled is not None:
                continue  # a timer of the same moment came in between
            second = self._painter.picture(commit)
            found = self._compare(subject, first, second, commit)
            if found is not None and taken.handler is not None:
                name = f"{taken.agent}.{taken.handler.name}"
                place = f"{taken.handler.place.file}:{taken.handler.place.line}"
                broken = Broken(name, place, subject, repr(taken.event), found)
                self.broken.setdefault(name, broken)

    def _compare(
        self, subject: str, first: Picture, second: Picture, commit: Commit
    ) -> Difference | None:
        if commit.letters:
            return Difference(subject, "the second delivery", ("fine", commit.letters[0].error))
        if subject in second.states:
            states = (
                Picture({subject: first.states.get(subject)}),
                Picture({subject: second.states[subject]}),
            )
            found = difference(*states, ignore=(VERSION,))
            if found is not None:
                return found
        for kind, made in second.outputs.items():
            if kind == "actions" or kind.startswith("messages"):
                found = _more(subject, kind, first.outputs.get(kind, []), made)
                if found is not None:
                    return found
        return None


def _more(subject: str, kind: str, first: list[object], second: list[object]) -> Difference | None:
    """Something that the second delivery emitted and the first did not."""
    left = [_encode(_essence(kind, each)) for each in first]
    for each in second:
        essence = _essence(kind, each)
        if _encode(essence) not in left:
            return Difference(subject, kind, (None, essence))
        left.remove(_encode(essence))
    return None


def _essence(kind: str, made: object) -> object:
    """What an action or message says, without its number, hop and moment."""
    assert isinstance(made, list)
    return made[-1] if kind == "actions" else [made[2], made[3], made[-1]]
