"""The workshop: some partitions of a fork with all they need, in one process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.engine.port import Engine
from holdfast.model.calls import digest_of
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import Layout
from holdfast.runtime.forking.comparing import Decision, Decisions, Difference, Kind, decisions
from holdfast.runtime.forking.mailbox import Mailbox, Parcel, Stray
from holdfast.runtime.forking.recorded import Asked, Chosen, Recorded, UnderWay
from holdfast.runtime.forking.rounds import Progress, Tracks
from holdfast.runtime.forking.states import NO_STATES, States, compare_states
from holdfast.runtime.forking.stepper import ForkStepper
from holdfast.runtime.forking.track import Gap, LetterName, Track
from holdfast.runtime.forking.values import Values
from holdfast.runtime.partition import CONDEMNED
from holdfast.runtime.replaying.history import History
from holdfast.runtime.schemas import codebook_of
from holdfast.stepping.commit import Call, Fate, Head, Letter, Record
from holdfast.stepping.lane import in_lane

GAPS_KEPT = 2_000
ACTIONS_AT_ONCE = 256
OPEN_CALLS_READ = 1_000_000


class Begin(NamedTuple):
    """How a partition begins: what it has done before, and the agents it has."""

    head: Head = Head()
    records: Sequence[Record] = ()
    letters: Sequence[tuple[LetterName, Letter]] = ()
    strays: Sequence[Stray] = ()
    under_way: UnderWay = UnderWay()
    fates: Sequence[Fate] = ()


class Plan(NamedTuple):
    """What is folded: where every partition ends, and the time at which all do."""

    ends: dict[int, Head]
    until: float
    keep_actions: bool
    compare: bool = True
    calls_fail: bool = False


class LetterNote(NamedTuple):
    agent: str
    key: str
    event: str
    now: float
    error: str


@dataclass(slots=True)
class Outcome:
    """What one workshop, or all of them together, found."""

    inputs: int = 0
    messages: int = 0
    firings: int = 0
    totals: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, dict[Kind, int]] = field(default_factory=dict)
    agents: dict[tuple[str, str], dict[Kind, int]] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)
    examples: list[Difference] = field(default_factory=list)
    states: States = NO_STATES
    letters: tuple[list[LetterNote], list[LetterNote]] = field(default_factory=lambda: ([], []))
    missed: list[Gap] = field(default_factory=list)
    fresh: list[Gap] = field(default_factory=list)
    missed_count: int = 0
    fresh_count: int = 0
    unanswered: dict[tuple[str, str, str, bytes], int] = field(default_factory=dict)
    issued: list[tuple[float, int, bytes]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    waiting: list[Letter] = field(default_factory=list)  # dead letters at the end


class Workshop:
    def __init__(
        self, engine: Engine, fleet: FleetModel, plan: Plan, chosen: Chosen | None
    ) -> None:
        self.engine = engine
        self._fleet = fleet
        self._plan = plan
        self._chosen = chosen
        self._schemas = engine.catalog.schemas()
        self.codebook = codebook_of(fleet, self._schemas)
        self._recorded = Values(lambda: self._schemas, self.codebook)
        self._fork = Values(lambda: dict(self.codebook.schemas()), self.codebook)
        self._decisions = Decisions(self._recorded, self._fork)
        self._tracks = Tracks({})
        self._actions: dict[int, Iterator[Decision]] = {}
        self._ahead: dict[int, list[Decision]] = {}
        self._made: dict[int, list[Decision]] = {}
        self._outcome = Outcome()
        self._noted: dict[tuple[int, int], int] = {}  # partition, side -> how many gaps
        self._committed: list[Record] = []
        self._live = engine.catalog.layout.numbers

    # One generation of partitions after the other.

    def open(self, layout: Layout, begins: dict[int, Begin]) -> None:
        self._tracks = Tracks({n: self._track(n, layout, begin) for n, begin in begins.items()})
        for number, begin in begins.items():
            self._actions[number] = self._read_actions(number, begin.head.actions_next)
            self._ahead[number] = []
            self._made[number] = []
            if number in self._live and self._plan.compare:
                self._committed += self.engine.view(number).records()

    def _condemned(self, number: int, history: History) -> list[int]:
        """Where events stand that had ended their worker. A commit of one in the lane moves no
        position, and its letter tells which it was."""
        letters = (letter for letter, _ in self.engine.view(number).letters())
        urgent = (each.position for each in letters if each.error == CONDEMNED)
        found = [position for position in urgent if in_lane(position)]
        before = -1
        for note in history.notes():
            if note.condemned and note.position > before:
                found.append(note.position - 1)
            before = note.position
        return found

    def _track(self, number: int, layout: Layout, begin: Begin) -> Track:
        history = History(self.engine, number)
        history.end = self._plan.ends[number]
        condemned = self._condemned(number, history)
        head = begin.head
        recorded = Recorded(
            history,
            head.position,
            head.journal_next,
            self.codebook,
            self._schemas,
            layout,
            self._chosen,
            begin.under_way,
        )

        def letter_of(number: int) -> Letter | None:
            return track.letter(number)

        stepper = ForkStepper(self._fleet, layout, self.codebook, letter_of, condemned, begin.fates)
        stepper.load(head, {}, begin.records)
        end = min(self._plan.until, history.end.now)
        mailbox = Mailbox(recorded, self.codebook, begin.strays, self._plan.calls_fail)
        track = Track(number, stepper, recorded, mailbox, end)
        track.production_letters = {letter.id: letter for letter, _ in history.view.letters()}
        for name, letter in begin.letters:
            track.letters.setdefault(name, []).append(letter)
        return track

    def close(self) -> dict[str, list[object]]:
        """What the generation to come inherits, if there is one."""
        records = [r for track in self._tracks.tracks.values() for r in track.stepper.records()]
        letters = [
            (name, letter)
            for track in self._tracks.tracks.values()
            for name, waiting in track.letters.items()
            for letter in waiting
        ]
        strays = [m for track in self._tracks.tracks.values() for m in track.mailbox.strays]
        tracks = self._tracks.tracks.values()
        fates = [fate for track in tracks for fate in track.stepper.decided.all()]
        self._compare(math.inf)
        self._note_recorded_letters()
        return {
            "records": list(records),
            "letters": list(letters),
            "strays": list(strays),
            "fates": list(fates),
        }

    # Rounds.

    def begin(self, since: float) -> None:
        for track in self._tracks.tracks.values():
            track.begin(since)

    def turn(
        self,
        limit: float,
        parcels: list[Parcel],
        frontiers: dict[int, float],
        abandon: int | None,
    ) -> Progress:
        return self._tracks.turn(limit, parcels, frontiers, abandon)

    def seal(self) -> bool:
        sealed = [track.stepper.seal() for track in self._tracks.tracks.values()]
        return all(sealed)

    def roll_back(self, spoiled: bool) -> None:
        self._tracks.roll_back(spoiled)

    def next_time(self) -> float:
        return min((t.next_time for t in self._tracks.tracks.values()), default=math.inf)

    def keep(self) -> None:
        outcome = self._outcome
        for number, track in self._tracks.tracks.items():
            made = track.keep()
            outcome.inputs += made.inputs
            outcome.messages += made.messages
            outcome.firings += made.firings
            outcome.letters[1].extend(self._letter(self._fork, each) for each in made.letters)
            missed, fresh = self._wanted(made.missed), self._wanted(made.fresh)
            outcome.missed += missed[: max(0, GAPS_KEPT - self._noted.get((number, 0), 0))]
            outcome.fresh += fresh[: max(0, GAPS_KEPT - self._noted.get((number, 1), 0))]
            for side, gaps in enumerate((missed, fresh)):
                self._noted[number, side] = self._noted.get((number, side), 0) + len(gaps)
            for issued in made.issued:
                self._made[number] += decisions(issued.frame, self._fork)
                if self._plan.keep_actions:
                    outcome.issued.append((issued.now, number, issued.frame))
        if self._plan.compare:
            self._compare(None)

    def _wanted(self, gaps: list[Gap]) -> list[Gap]:
        return [g for g in gaps if self._chosen is None or self._chosen(g.agent, g.key)]

    # Comparing.

    def _compare(self, until: float | None) -> None:
        """What both sides have decided before a time that both are past."""
        for number, track in self._tracks.tracks.items():
            bound = track.frontier if until is None else until
            ours = self._take_recorded(number, bound)
            theirs = self._made[number]
            if bound < math.inf:
                cut = next((i for i, d in enumerate(theirs) if d.now >= bound), len(theirs))
                theirs, self._made[number] = theirs[:cut], theirs[cut:]
            else:
                self._made[number] = []
            self._decisions.feed(ours, theirs)

    def _take_recorded(self, number: int, bound: float) -> list[Decision]:
        ahead = self._ahead[number]
        found: list[Decision] = []
        while True:
            if not ahead:
                following = next(self._actions[number], None)
                if following is None:
                    return found
                ahead.append(following)
            if ahead[0].now >= bound or ahead[0].now > self._plan.until:
                return found
            each = ahead.pop()
            if self._chosen is None or self._chosen(each.agent, each.key):
                found.append(each)

    def _read_actions(self, number: int, first: int) -> Iterator[Decision]:
        view, end = self.engine.view(number), self._plan.ends[number].actions_next
        while first < end:
            batch = view.actions(first, ACTIONS_AT_ONCE)
            if not batch:
                return
            for issued in batch:
                rows = decisions(issued.frame, self._recorded, max(0, first - issued.first))
                yield from rows[: max(0, end - max(first, issued.first))]
                first = issued.first + issued.count

    def _letter(self, values: Values, letter: Letter) -> LetterNote:
        name = values.name_of(letter.schema)
        return LetterNote(letter.agent, letter.key, name, letter.now, letter.error)

    def _note_recorded_letters(self) -> None:
        for number, track in self._tracks.tracks.items():
            following = self._plan.ends[number].letters_next
            for letter, _ in self.engine.view(number).letters():
                wanted = self._chosen is None or self._chosen(letter.agent, letter.key)
                own = track.letters_first <= letter.id < following and letter.now <= track.end
                if wanted and own:
                    self._outcome.letters[0].append(self._letter(self._recorded, letter))

    def finish(self) -> Outcome:
        outcome, made = self._outcome, self._decisions
        if self._plan.compare:
            self._compare(math.inf)
            made.finish()
            self._compare_ends()
        else:
            outcome.records = self.records()
            for track in self._tracks.tracks.values():
                for waiting in track.letters.values():
                    outcome.waiting += waiting
        self._find_unanswered()
        outcome.totals, outcome.counts, outcome.agents = made.totals, made.counts, made.agents
        outcome.times = {name: list(times) for name, times in made.times.items()}
        outcome.examples = made.examples()
        outcome.missed_count = sum(n for (_, side), n in self._noted.items() if side == 0)
        outcome.fresh_count = sum(n for (_, side), n in self._noted.items() if side == 1)
        return outcome

    def _find_unanswered(self) -> None:
        """Calls that nothing recorded answers; one that was open in production too is none."""
        for number, track in self._tracks.tracks.items():
            still = {c.id for c in self.engine.view(number).calls(0, OPEN_CALLS_READ)}
            called = [call for call in track.mailbox.called.values() if call.id not in still]
            asked = {call.id: _asked(call) for call in called}
            if not track.recorded.late_replies.issuperset(asked.values()):
                track.recorded.read_late(set(asked.values()))
            for call in called:
                if asked[call.id] in track.recorded.late_replies:
                    continue
                at = (call.function, call.agent, call.key, call.arguments)
                self._outcome.unanswered[at] = self._outcome.unanswered.get(at, 0) + 1

    def _compare_ends(self) -> None:
        outcome, tracks = self._outcome, self._tracks.tracks
        ends = {n: track.end for n, track in tracks.items()}
        self._note_recorded_letters()
        last = {n: end for n, end in ends.items() if n in self._live}
        if not last:
            return
        layout = self.engine.catalog.layout
        moved_on = any(self.engine.view(n).head().now > end for n, end in last.items())

        def known(record: Record) -> bool:
            return record.updated <= last[layout.partition_of(record.key)]

        def may_be_gone(record: Record) -> bool:
            return (
                moved_on and self._fleet.agents[record.agent].__holdfast__.expire_after is not None
            )

        records = [r for track in tracks.values() for r in track.stepper.records()]
        ours = [r for r in self._committed if self._chosen is None or self._chosen(*r[:2])]
        sides = (self._recorded, self._fork)
        outcome.states = compare_states(ours, records, sides, known, may_be_gone)

    def records(self) -> list[Record]:
        return [r for track in self._tracks.tracks.values() for r in track.stepper.records()]


def _asked(call: Call) -> Asked:
    return (call.agent, call.key, call.function, digest_of(call.function, call.arguments))
