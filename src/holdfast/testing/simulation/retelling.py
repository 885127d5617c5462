"""Retelling: the reference folds every partition along its commits, generation by generation.

What each commit stored is compared on the way, so the first wrong one is named. The order of inputs
is the evidence's: positions of the inbox, with what the journal has in front of them, also of the
urgent lane. Which release
folds an input is told by the commit that covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError
from holdfast.model.event import Event
from holdfast.stepping.commit import Commit
from holdfast.stepping.lane import LANE
from holdfast.testing.simulation.contract.folding import Comparison
from holdfast.testing.simulation.contract.overtaking import Overtaking, is_overtaking
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.contract.timing import Firing, Timing
from holdfast.testing.simulation.decoding import Fired, Unreadable, extras_of, fired_of
from holdfast.testing.simulation.evidence import Accepted
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition
from holdfast.testing.simulation.plainagent import PlainAgent
from holdfast.testing.simulation.plaincontext import Message, PlainCall
from holdfast.testing.simulation.plainfates import TOLD
from holdfast.testing.simulation.reference import Name, PlainLetter, Reference

CONDEMNED = "it ended its worker again and again, also when it was folded alone"


@dataclass
class Story:
    """What the reference says came out of the run."""

    messages: dict[tuple[Name, Name], list[Message]] = field(default_factory=dict)
    calls: dict[str, tuple[float, PlainCall]] = field(default_factory=dict)  # all that were made,
    # by id, and when they were durable
    open: list[PlainCall] = field(default_factory=list)  # in the end
    answers: dict[tuple[int, int], Event | None] = field(default_factory=dict)  # by partition
    # and position of the question; None: it failed, or nothing was replied
    issued: dict[int, list[tuple[float, str]]] = field(default_factory=dict)  # by partition


def retell(history: History, report: Report) -> Story:
    story = Story()
    parents: list[Reference] = []
    for generation in history.generations:
        tellers = [_Teller(history, each, report, story, parents) for each in generation]
        for teller in tellers:
            teller.tell()
        parents = [teller.reference for teller in tellers]
    story.open = [call for parent in parents for call in parent.open_calls]
    if history.evidence.quiet and history.generations:
        until = history.evidence.clock_at_quiet
        for teller in tellers:
            teller.timing.nothing_left(teller.reference, until, f"the run was quiet at {until}")
    return story


class _Teller:
    """One partition."""

    def __init__(
        self,
        history: History,
        partition: Partition,
        report: Report,
        story: Story,
        parents: Sequence[Reference],
    ) -> None:
        self._history = history
        self._partition = partition
        self._report = report
        self._story = story
        self._committed = float("-inf")  # when the last commit was
        self._comparison = Comparison(history, partition, report)
        self._overtaking = Overtaking(partition, report)
        self.timing = Timing(history, partition, report)
        self.reference = Reference(history.fleet, partition.log.born.now)
        self.reference.position = partition.log.first
        story.issued[partition.number] = []
        self._inherit(parents)

    def _found(self, promise: Promise, text: str, at: float | None = None) -> None:
        number = self._partition.number
        self._report.add(promise, f"partition {number}: {text}", number, at=at)

    def _inherit(self, parents: Sequence[Reference]) -> None:
        """Agents and dead letters that wait go to whoever owns their slots now."""
        log = self._partition.log
        agents = {
            name: _moved(agent)
            for parent in parents
            for name, agent in parent.agents.items()
            if self._partition.owns(name[1])
        }
        self._comparison.inherited(log.inherited, agents)
        waiting = [each for parent in parents for each in parent.letters.values()]
        waiting = [each for each in waiting if self._partition.owns(each.key)]
        waiting.sort(key=lambda letter: letter.now)
        letters: list[PlainLetter] = [
            letter._replace(id=number, input=letter.input._replace(ask=-1))
            for number, letter in enumerate(waiting, start=1)
        ]
        self.reference.adopt(agents.values(), letters)
        self._inherit_fates(parents)
        if log.born.letters_next != len(letters) + 1:
            text = f"inherits letters up to {log.born.letters_next}, expected {len(letters) + 1}"
            self._found(Promise.FOLD, text)
        self._inherit_calls([call for parent in parents for call in parent.open_calls])
        before = max((parent.now for parent in parents), default=0.0)
        if log.born.now < before:
            self._found(
                Promise.TIMERS, f"its clock began at {log.born.now}, before it was {before}"
            )

    def _inherit_fates(self, parents: Sequence[Reference]) -> None:
        """What became of actions goes with their agents, a ground stop to every child."""
        for parent in parents:
            if parent.ground.telling:
                self._found(Promise.FOLD, "its parent was still telling of a ground stop")
            self.reference.ground.reason = self.reference.ground.reason or parent.ground.reason
            for kinds in parent.fates.known.values():
                for fate in kinds.values():
                    if self._partition.owns(fate.key):
                        self.reference.fates.add(fate)

    def _inherit_calls(self, parents_calls: Sequence[PlainCall]) -> None:
        log = self._partition.log
        expected = sorted(each for each in parents_calls if self._partition.owns(each.key))
        if sorted(call[1:] for call in log.calls) != expected:
            seen, wanted = [call.id for call in log.calls], [call.id for call in expected]
            self._found(Promise.CALLS, f"inherits the calls {seen}, expected {wanted}")
        if [call.number for call in log.calls] != list(range(1, log.born.calls_next)):
            text = f"inherits {len(log.calls)} calls, the next is number {log.born.calls_next}"
            self._found(Promise.CONTIGUOUS, text)

    def tell(self) -> None:
        program = 0
        for accepted in self._partition.log.commits:
            if accepted.program < program:
                text = f"release {accepted.program} folded after release {program}"
                self._found(Promise.FOLD, text, accepted.at)
            program = accepted.program
            try:
                self._tell_commit(accepted)
            except (Unreadable, HoldfastError) as error:
                text = f"commit {accepted.commit.head.commits} took what cannot be read: {error}"
                self._found(Promise.FOLD, text, accepted.at)
                return

    def _tell_commit(self, accepted: Accepted) -> None:
        commit, reference = accepted.commit, self.reference
        reference.release = self._history.releases[accepted.program]
        reference.condemned = CONDEMNED if self._condemns(accepted) else None
        end = min(commit.head.position, self._partition.end)
        for fired in fired_of(commit):
            if not reference.position <= fired.position <= end:
                text = f"a timer at {fired.position} in a commit of {reference.position} to {end}"
                self._found(Promise.TIMERS, text, accepted.at)
            self._take_inputs(min(fired.position, end))
            if is_overtaking(fired):
                self._overtaking.take(reference, fired, accepted)
            else:
                self.timing.fire(reference, self._firing(fired, commit))
        self._take_inputs(end)
        self._overtaking.reached(reference, accepted)
        reference.condemned = None
        self._committed = accepted.at
        outputs = reference.take_outputs()
        ids = self._comparison.commit(accepted, reference, outputs)
        self._story.issued[self._partition.number] += [(accepted.at, each) for each in ids]
        for message in outputs.messages:
            pair = (message.sender.agent, message.sender.key), (message.agent, message.key)
            self._story.messages.setdefault(pair, []).append(message)
        self._story.calls.update({call.id: (accepted.at, call) for call in outputs.calls})
        for answer in outputs.answers:
            self._story.answers[self._partition.number, answer.position] = answer.reply

    def _firing(self, fired: Fired, commit: Commit) -> Firing:
        """Whoever makes a commit knew the one before, and read the inbox after it."""
        ahead = self._partition.input_at(fired.position)
        if fired.name == TOLD:
            ahead = self._partition.input_at(LANE + self.reference.urgent) or ahead  # the command
        if ahead is None:
            return Firing(fired, commit, None, waited=False)
        came = self._history.acknowledged.get((ahead.source, ahead.seq), float("inf"))
        return Firing(fired, commit, ahead.stamp, waited=came < self._committed)

    def _take_inputs(self, end: int) -> None:
        reference = self.reference
        while reference.position < end:
            one = self._partition.inputs[reference.position - self._partition.log.first]
            if reference.earliest <= one.stamp:
                what = f"the event at {one.position}, stamped {one.stamp}"
                self.timing.nothing_left(reference, one.stamp, what)
            reference.take(one)

    def _condemns(self, accepted: Accepted) -> bool:
        """Whether this commit gives up an event, and that event has killed often enough for it."""
        before, fired = accepted.commit.before, fired_of(accepted.commit)
        urgent = any(is_overtaking(each) or each.name == TOLD for each in fired)
        place = LANE + before.urgent if urgent else before.position
        at = self._partition.number, place
        if at not in self._history.evidence.condemned or not _takes_one(accepted.commit):
            return False
        return any(x.error == CONDEMNED for x in accepted.commit.letters) or any(
            extras_of(record.extras).paused == CONDEMNED for record in accepted.commit.changed
        )


def _takes_one(commit: Commit) -> bool:
    fired = 0 if commit.journalled is None else commit.journalled.count
    return commit.head.position - commit.before.position + fired == 1


def _moved(agent: PlainAgent) -> PlainAgent:
    """In another partition: whoever asked looks for the answer in the old one."""
    return replace(agent, held=[one._replace(ask=-1) for one in agent.held])
