"""The replay of one partition: recorded frames and firings in, the commits they make out.

It folds with the code it is given and follows no agenda of its own. Where the data has a note of
every commit (`View.commits`), the replay makes the same commits, so that their sums can be
compared, and so that what depends on where a batch ends comes out as it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.runtime.kernels import kernels_if_possible
from holdfast.runtime.replaying.feeding import END, Agent, FiringFeed, InputFeed, Until
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import (
    Call,
    Commit,
    CommitNote,
    Fate,
    Head,
    Journalled,
    Letter,
    Record,
)
from holdfast.stepping.fates import Fates
from holdfast.stepping.inputs import FLEET_WIDE, Inputs, StoredFrame, read_inputs
from holdfast.stepping.script import Firing, interleaved
from holdfast.stepping.stepper import Stepper

EVENTS_AT_ONCE = 65_536


class Behind(NamedTuple):
    """Where in another partition's inbox the messages are that are sent from now on: behind a
    position, and behind so many more that were under way."""

    position: int = 0
    under_way: int = 0


class Start(NamedTuple):
    """What a replay begins with: nothing, or a partition as it stood at some commit."""

    head: Head = Head()
    sent_next: Mapping[int, int] = {}
    records: Iterable[Record] = ()
    letters: Iterable[Letter] = ()  # those that were not redriven by then
    fates: Iterable[Fate] = ()
    calls: Iterable[Call] = ()  # the open ones
    behind: Mapping[int, Behind] = {}  # by partition that gets messages
    what: str = ""  # as in "snapshot before-upgrade"; "": the beginning


class Taken(NamedTuple):
    """One input of one agent: an event, or an operator's command."""

    position: int
    origin: str
    event: object


NOTHING = Start()


class Replay:
    """With `only` it folds one agent; letters are then found by `letter_of`, not made anew."""

    def __init__(
        self,
        fleet: FleetModel,
        codebook: Codebook,
        layout: Layout,
        start: Start = NOTHING,
        *,
        only: Agent | None = None,
        letter_of: Callable[[int], Letter | None] | None = None,
        condemned: Mapping[int, str] | None = None,
    ) -> None:
        self._codebook = codebook
        self._only = only
        self._letters = {letter.id: letter for letter in start.letters}
        self._redriven: set[int] = set()
        self._fates = Fates(start.fates)
        self._calls = {call.id: call for call in start.calls}
        self._recorded_letter = letter_of
        self._condemned = condemned or {}  # by position, where no note says it
        # One agent alone is folded sooner than a kernel is loaded.
        kernels = kernels_if_possible(fleet) if only is None else {}
        self.stepper = Stepper(
            fleet, layout, codebook, self._letter, self._fates.of, scripted=True, kernels=kernels
        )
        self.stepper.load(start.head, dict(start.sent_next), start.records)
        self.note: CommitNote | None = None  # of the commit that was yielded last
        self._taken: tuple[list[Inputs], list[Firing]] = [], []

    @property
    def head(self) -> Head:
        return self.stepper.head

    @property
    def unfired(self) -> list[Firing]:
        """Firings of the last commit that this program has no timer for."""
        own = self._only
        return [f for f in self.stepper.unfired if own in (None, (f.agent, f.key))]

    @property
    def batch(self) -> list[Inputs]:
        """The inputs of the last commit."""
        return self._taken[0]

    @property
    def fired(self) -> list[Firing]:
        """What the script of the last commit had and this program fired, as it was recorded."""
        return [f for f in self._taken[1] if f not in self.unfired and self._is_own(f)]

    def first_inputs(self) -> dict[Agent, Taken]:
        """The first input that each agent took in the last commit."""
        found: dict[Agent, Taken] = {}
        for each in interleaved(*self._taken):
            if isinstance(each, Firing):
                name, about = (each.agent, each.key), (each.position, each.origin)
                if name not in found:
                    found[name] = Taken(*about, self._event_of(each))
                continue
            what = each.events if each.commands is None else each.commands
            for i, name in enumerate(zip(each.agents, each.keys, strict=True)):
                if name not in found:
                    found[name] = Taken(each.first + i, each.origin, what[i])
        return found

    def records(self) -> Iterator[Record]:
        """Every agent as it stands now."""
        for kind in self.stepper.kinds.values():
            yield from kind.records()

    def record(self, agent: str, key: str) -> Record | None:
        return self.stepper.kinds[agent].record(key)

    def letters(self) -> list[tuple[Letter, bool]]:
        """With: was it redriven."""
        return [(x, x.id in self._redriven) for x in self._letters.values()]

    def fates(self) -> list[Fate]:
        return self._fates.all()

    def calls(self) -> dict[str, Call]:
        """Those that are open, by their ids."""
        return dict(self._calls)

    def _letter(self, letter_id: int) -> Letter | None:
        if letter_id in self._redriven:
            return None
        if self._recorded_letter is not None:
            return self._recorded_letter(letter_id)
        return self._letters.get(letter_id)

    # Folding.

    def run(
        self,
        frames: Iterable[StoredFrame],
        journal: Iterable[Journalled],
        *,
        until: Until = END,
        notes: Iterable[CommitNote] = (),
    ) -> Iterator[Commit]:
        """The commits that frames and journal make, from where the replay stands.

        Frames and journal may begin earlier than that; notes may have holes.
        """
        inputs = InputFeed(frames, self._codebook, self.head.position, self._only)
        firings = FiringFeed(journal, self.head.journal_next)
        for note in notes:
            if note.number <= self.head.commits:
                continue
            if note.number > self.head.commits + 1:
                # Nobody noted the commits in between: the same inputs, cut anyhow.
                yield from self._run_unnoted(inputs, firings, until, note)
                if self.head.commits != note.number:
                    return
                continue
            batch, script = list(inputs.take(note.position)), firings.take(note.fired)
            ended = until.reached_by(note.position, note.now)
            if ended:
                batch, script, ended = until.cut(batch, script, self.head.now)
            if batch or any(self._is_own(firing) for firing in script):
                self.note = None if ended else note
                yield self._repeat(batch, script, note.condemned)
            if ended:
                return
            self._stand_at(note)
        yield from self._run_unnoted(inputs, firings, until, None)

    def _run_unnoted(
        self, inputs: InputFeed, firings: FiringFeed, until: Until, last: CommitNote | None
    ) -> Iterator[Commit]:
        """Up to the note `last`, or to the end."""
        self.note = None
        end = 2**62 if last is None else last.position
        while (first := inputs.peek()) is not None and first.first < end:
            condemned = self._condemned.get(first.first, "")
            stop = first.first + (1 if condemned else EVENTS_AT_ONCE)
            stop = min([stop, end, *(p for p in self._condemned if p > first.first)])
            batch = _up_to_command(inputs, stop)
            script = firings.take_before(batch[-1].first + len(batch[-1]))
            batch, script, ended = until.cut(batch, script, self.head.now)
            if condemned and script:
                yield self._repeat([], script)
                script = []
            if batch or script:
                yield self._repeat(batch, script, condemned)
            if ended:
                return
        script = firings.take(2**62 if last is None else last.fired)
        _, script, ended = until.cut([], script, self.head.now)
        if script:
            yield self._repeat([], script)
        if last is not None and not ended:
            self._stand_at(last)

    def _repeat(self, batch: list[Inputs], script: list[Firing], condemned: str = "") -> Commit:
        self._taken = batch, script
        own = [each if self._is_own(each) else each.passed_by for each in script]
        commit = self.stepper.repeat(batch, own, condemned)
        self._letters.update({letter.id: letter for letter in commit.letters})
        self._redriven.update(commit.redriven)
        self._fates.add(commit.fates)
        self._calls.update({call.id: call for call in commit.calls})
        for id in commit.closed:
            self._calls.pop(id, None)
        return commit

    def _event_of(self, firing: Firing) -> object:
        if firing.taken is not None:
            inputs = read_inputs(firing.taken, self._codebook)
            return (inputs.commands or inputs.events)[0]
        return firing.event and self._codebook.reader_of(firing.event[0]).row(firing.event[1])

    def _is_own(self, firing: Firing) -> bool:
        everybody = firing.taken is not None and firing.agent == FLEET_WIDE
        return everybody or self._only in (None, (firing.agent, firing.key))

    def _stand_at(self, note: CommitNote) -> None:
        """Migrations and commits of other agents count, although nothing is folded for them."""
        head = self.head._replace(commits=note.number)
        if self._only is not None:
            head = head._replace(position=note.position, now=note.now, journal_next=note.fired)
        self.stepper.head = head


def _up_to_command(inputs: InputFeed, stop: int) -> list[Inputs]:
    """What may be folded at once: a redriven letter has to be committed before its command."""
    batch: list[Inputs] = []
    while (following := inputs.peek()) is not None and following.first < stop:
        if batch and following.commands is not None:
            break
        batch += inputs.take(min(stop, following.first + len(following)))
    return batch
