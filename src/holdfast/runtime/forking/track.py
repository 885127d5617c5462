"""One partition in a fork: its recorded inputs, the messages it waits for, and its stepper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.runtime.forking.mailbox import (
    Mailbox,
    Message,
    Parcel,
    Reply,
    Stray,
    input_of,
    inputs_of,
)
from holdfast.runtime.forking.recorded import Piece, Recorded, Slot
from holdfast.runtime.forking.stepper import ForkStepper, Item, Rings, Tick, TimerId
from holdfast.stepping.commit import Commit, Issued, Letter
from holdfast.stepping.inputs import Inputs
from holdfast.stepping.script import Firing

LetterName = tuple[str, str, int, float]  # agent, key, position, event time
EVENTS_PER_STEP = 32_768
STRICT_ROUNDS = 8


class Blocked(NamedTuple):
    """A place whose message is not there yet, and who would send it."""

    source: int
    sent: float
    at: float
    position: int


class Gap(NamedTuple):
    """Something that only one of the two had: a message or a firing."""

    agent: str
    key: str
    what: str
    now: float
    position: int


@dataclass(slots=True)
class Made:
    """What came of a round. Kept or thrown away as a whole."""

    inputs: int = 0
    messages: int = 0
    firings: int = 0
    issued: list[Issued] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    missed: list[Gap] = field(default_factory=list)  # messages and firings of production only
    fresh: list[Gap] = field(default_factory=list)  # of the candidate only


@dataclass(slots=True)
class _Mark:
    """Where a round began."""

    row: int
    position: int
    now: float
    ticked: float
    pieces: list[Piece] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    letters: list[tuple[LetterName, Letter, bool]] = field(default_factory=list)  # was it buried


class Track:
    def __init__(
        self,
        number: int,
        stepper: ForkStepper,
        recorded: Recorded,
        mailbox: Mailbox,
        end: float,
    ) -> None:
        self.number = number
        self.stepper = stepper
        self.recorded = recorded
        self.mailbox = mailbox
        self.end = end  # the time of the last input that is folded
        self.made = Made()
        self.blocked: Blocked | None = None
        self.frontier = -math.inf  # nothing that is still to come is before this time
        self.letters: dict[LetterName, list[Letter]] = {}  # that wait
        self.production_letters: dict[int, Letter] = {}
        self.letters_first = stepper.head.letters_next  # earlier ones were there at the start
        self._row = 0  # how much of the first piece is taken
        self._position = stepper.head.position
        self._now = stepper.head.now
        self._ticked = -math.inf
        self._since = -math.inf
        self._strict_rounds = 0
        self._abandoned = -1  # a position whose message nobody waits for any more
        self._mark = self._marked()

    # Rounds.

    def begin(self, since: float) -> None:
        self._since = since
        # Where events fail they tend to fail again: then one way is cheaper than two.
        self._strict_rounds = STRICT_ROUNDS if self.stepper.strict else self._strict_rounds - 1
        self._start(strict=self._strict_rounds > 0)

    def _start(self, *, strict: bool) -> None:
        self._mark = self._marked()
        self.mailbox.begin(self._since, self._now)
        self.stepper.remember(strict=strict)
        self.made = Made()

    def _marked(self) -> _Mark:
        return _Mark(self._row, self._position, self._now, self._ticked)

    def keep(self) -> Made:
        for stray in self.mailbox.keep():
            if isinstance(stray, Message):
                gap = Gap(*stray.receiver, f"message {stray.twin.event}", stray.arrival, -1)
                self.made.fresh.append(gap)
        return self.made

    def roll_back(self, spoiled: bool) -> None:
        """To the beginning of the round. Whether it is folded strictly then must not depend on how
        far beyond its end anybody went."""
        mark, strict = self._mark, spoiled and self.stepper.spoiled
        self.stepper.roll_back()
        self.mailbox.roll_back()
        self.recorded.pieces.extendleft(reversed(mark.pieces))
        self.recorded.firings.extendleft(reversed(mark.firings))
        for name, letter, buried in reversed(mark.letters):
            if buried:
                self.letters[name].pop()
            else:
                self.letters[name].insert(0, letter)
        self._row, self._position, self._now = mark.row, mark.position, mark.now
        self._ticked, self._abandoned = mark.ticked, -1
        self.blocked, self.frontier = None, self._now
        self._start(strict=strict or self._strict_rounds > 0)

    @property
    def furthest(self) -> float:
        """The latest time anything was folded at in this round."""
        now = self.stepper.head.now
        return now if now > self._mark.now else -math.inf

    @property
    def next_time(self) -> float:
        """When something happens next; infinite at the end."""
        due = self.stepper.agenda.next_due
        times = [self._time_of_next(), self.mailbox.next_arrival]
        if due is not None and due <= self.recorded.timers_until(self._row):
            times.append(max(due, self._now))
        earliest = min(times)
        return earliest if earliest <= self.end else math.inf

    def abandon(self) -> None:
        """Nobody can go on: this place stays empty."""
        assert self.blocked is not None
        self._abandoned = self.blocked.position

    # Folding.

    def advance(self, limit: float, frontiers: Mapping[int, float]) -> list[Parcel] | None:
        """One step as far as it goes. The messages it sent, or None if nothing moved."""
        limit = min(limit, self.end)
        script = self._script(limit, frontiers)
        if not script:
            return None
        commit = self.stepper.follow(script)
        # The time of what production fired passes, also if nothing fires here.
        head = self.stepper.head
        self.stepper.head = head._replace(now=max(head.now, self._now))
        self._collect(commit)
        return [
            Parcel(self.number, out.destination, out.first, out.count, out.frame)
            for out in commit.outgoing
        ]

    def _script(self, limit: float, frontiers: Mapping[int, float]) -> list[Item]:
        script: list[Item] = []
        self.blocked = None
        stop = self.made.inputs + EVENTS_PER_STEP
        while self.made.inputs < stop:
            at = self._time_of_next()
            if self.mailbox.next_arrival < at:
                if self.mailbox.next_arrival > limit:
                    return self._reached(script, limit)
                if isinstance(self.mailbox.strays[0], Reply) and script:
                    break  # what comes before it may close the call
                script.append(self._stray(self.mailbox.take_stray()))
            elif at > limit:
                return self._reached(script, limit)
            elif (firing := self.recorded.firing()) and firing.position <= self._position:
                script.append(self._rings(limit))
            elif not self._take_piece(script, frontiers):
                break
        self._stop(script, self.blocked)
        return script

    def _stop(self, script: list[Item], blocked: Blocked | None) -> None:
        self.frontier = self._now if blocked is None else blocked.at
        if blocked is not None:
            self._tick(script, blocked.at, set())

    def _time_of_next(self) -> float:
        firing = self.recorded.firing()
        if firing is not None and firing.position <= self._position:
            return max(self._now, firing.now)
        piece = self.recorded.piece()
        if piece is not None:
            at = piece.first + self._row
            if firing is not None and firing.position <= at:
                self._position = at  # rows in between are not folded
                return max(self._now, firing.now)
            return max(self._now, piece.stamp)
        if firing is None:
            return math.inf
        self._position = firing.position
        return max(self._now, firing.now)

    def _reached(self, script: list[Item], limit: float) -> list[Item]:
        firings = self.recorded.firings_at(self._position)
        self._tick(script, limit, {(f.agent, f.key, f.name, f.due) for f in firings})
        self.frontier = math.inf if limit >= self.end else math.nextafter(limit, math.inf)
        return script

    def _tick(self, script: list[Item], until: float, upcoming: set[TimerId]) -> None:
        """Our own timers up to now: nothing recorded comes before them any more."""
        until = min(until, self.recorded.timers_until(self._row))
        due = self.stepper.agenda.next_due
        if script or (due is not None and due <= until and self._ticked < until):
            script.append(Tick(until, upcoming))
            self._ticked = until

    def _stray(self, message: Stray) -> Inputs:
        self._now = max(self._now, message.arrival)
        self.made.inputs += 1
        if isinstance(message, Reply):
            return input_of(message, self._position, self._now)
        self.made.messages += 1
        return inputs_of([message], self._position, self._now)

    def _rings(self, limit: float) -> Rings:
        firings = self.recorded.firings
        found: list[Firing] = []
        while (firing := self.recorded.firing()) and firing.position <= self._position:
            if max(self._now, firing.now) > limit:
                break
            self._now = max(self._now, firing.now)
            found.append(firings.popleft())
        self._mark.firings += found
        self.made.inputs += len(found)
        piece = self.recorded.piece()
        return Rings(found, piece.stamp if piece is not None else 0.0)

    def _take_piece(self, script: list[Item], frontiers: Mapping[int, float]) -> bool:
        """Rows of the next frame, up to the next firing. False if it ends the script."""
        piece = self.recorded.piece()
        assert piece is not None
        firing = self.recorded.firing()
        stop = piece.count if firing is None else min(piece.count, firing.position - piece.first)
        if piece.slots is not None:
            going = self._take_messages(script, piece, piece.slots, stop, frontiers)
        elif piece.replies:
            going = not script and self._take_reply(script, piece)
        else:
            inputs = piece.inputs
            assert inputs is not None
            if inputs.commands is not None and script:
                return False  # a letter that is redriven has to be committed
            if self._row or stop < piece.count:
                inputs = inputs.part(self._row, stop)
            self.made.inputs += len(inputs)
            script.append(inputs)
            self._row, going = stop, True
        if self._row > 0 or going:
            self._now = max(self._now, piece.stamp)
        self._position = piece.first + self._row
        if self._row == piece.count:
            self._mark.pieces.append(self.recorded.pieces.popleft())
            self._row = 0
        return going

    def _take_messages(
        self,
        script: list[Item],
        piece: Piece,
        slots: list[Slot | None],
        stop: int,
        frontiers: Mapping[int, float],
    ) -> bool:
        run: list[Message] = []
        now = max(self._now, piece.stamp)
        before = self._row
        going = True

        def close() -> None:
            if run:
                first = piece.first + self._row - len(run)
                script.append(inputs_of(run, first, piece.stamp))
                run.clear()

        while self._row < stop:
            slot, position = slots[self._row], piece.first + self._row
            if slot is None or slot.given is not None:
                close()
                if slot is not None and slot.given is not None:
                    script.append(slot.given)
                    self.made.messages += 1
            elif (message := self.mailbox.take(slot.twin)) is not None:
                run.append(message)
                self.made.messages += 1
            else:
                if slot.source == self.number:
                    if script or run:
                        going = False  # what is folded first may send it
                        break
                elif self._abandoned != position and not (
                    frontiers.get(slot.source, -math.inf) > slot.twin.now
                ):
                    self.blocked = Blocked(slot.source, slot.twin.now, now, position)
                    going = False
                    break
                close()
                self._miss(slot, position)
            self._row += 1
        close()
        self.made.inputs += self._row - before
        return going

    def _take_reply(self, script: list[Item], piece: Piece) -> bool:
        """One recorded reply, for the call it answered or for one that asks the same."""
        assert piece.inputs is not None
        assert piece.inputs.calls is not None
        row = piece.inputs.part(self._row, self._row + 1)
        answered, event = piece.inputs.calls[self._row], row.events[0]
        agent, key = row.agents[0], row.keys[0]
        self._row += 1
        self.made.inputs += 1
        found = None
        for id, call in self.stepper.open_calls(agent, key).items():
            if call[:2] == answered[1:] and (found is None or id == answered.call):
                found = id
        if found is None:
            self.mailbox.keep_for_later((agent, key, *answered[1:]), event)
            what = f"reply {answered.function}"
            self.made.missed.append(Gap(agent, key, what, piece.stamp, row.first))
            return True
        reply = Reply(0.0, 0, 0, agent, key, answered._replace(call=found), event)
        script.append(input_of(reply, row.first, row.stamp))
        return False

    def _miss(self, slot: Slot, position: int) -> None:
        twin = slot.twin
        self.mailbox.give_up(twin)
        gap = Gap(twin.agent, twin.key, f"message {twin.event}", max(self._now, twin.now), position)
        self.made.missed.append(gap)

    # What came of a step.

    def _collect(self, commit: Commit) -> None:
        made = self.made
        if commit.issued is not None:
            made.issued.append(commit.issued)
        made.firings += commit.head.journal_next - commit.before.journal_next
        for firing in self.stepper.unfired:
            what = f"timer {firing.name}" if firing.name else "expiry"
            gap = Gap(firing.agent, firing.key, what, firing.now, firing.position)
            made.missed.append(gap)
        for agent, key, name, due in self.stepper.own:
            what = f"timer {name}" if name else "expiry"
            made.fresh.append(Gap(agent, key, what, due, -1))
        for letter in commit.letters:
            made.letters.append(letter)
            self.letters.setdefault(name_of(letter), []).append(letter)
            self._mark.letters.append((name_of(letter), letter, True))
        self.mailbox.note_calls(commit)
        for number in commit.redriven:
            at = name_of(self.production_letters[number])
            self._mark.letters.append((at, self.letters[at].pop(0), False))

    def letter(self, number: int) -> Letter | None:
        """Ours in the place of production's, which an operator's command names."""
        theirs = self.production_letters.get(number)
        return None if theirs is None else next(iter(self.letters.get(name_of(theirs), ())), None)


def name_of(letter: Letter) -> LetterName:
    return (letter.agent, letter.key, letter.position, letter.event_time)
