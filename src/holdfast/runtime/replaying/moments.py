"""One agent's past: its own inputs folded alone, to a moment, or to the end to compare them.

Other agents are not needed, since agents meet only in messages, which the inbox has. What they
leave behind is the time: a timer of another agent may have moved it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf

from holdfast.engine.port import Engine
from holdfast.engine.stamping import system_clock
from holdfast.errors import UsageError
from holdfast.model.fleet import FleetModel
from holdfast.runtime.agentlog import partitions_of
from holdfast.runtime.partition import CONDEMNED
from holdfast.runtime.replaying.comparing import Difference, Outcome
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.history import History, written
from holdfast.runtime.replaying.recorded import Output, OwnActions, actions_in, same_letter
from holdfast.runtime.replaying.replay import Replay, Start, Taken
from holdfast.runtime.replaying.values import Values, first_field, text_of
from holdfast.runtime.snapshots.beginnings import find_start, is_begun, snapshots_at, why_not
from holdfast.runtime.snapshots.store import SnapshotStore
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Letter, Record


class Past:
    """One agent in one partition it has lived in."""

    def __init__(
        self,
        fleet: FleetModel,
        codebook: Codebook,
        engine: Engine,
        number: int,
        agent: str,
        key: str,
        store: SnapshotStore | None = None,
        by: float = inf,
    ) -> None:
        if agent not in fleet.agents:
            raise UsageError(
                f"fleet {fleet.name} has no agent {agent}: it has {', '.join(fleet.agents)}"
            )
        self.agent, self.key = agent, key
        self.history = History(engine, number)
        self.values = Values(codebook)
        self._fleet, self._codebook = fleet, codebook
        everything = [letter for letter, _ in self.history.view.letters()]
        self._all_letters = {letter.id: letter for letter in everything}
        found = find_start(self.history, store, by)
        self.is_cut = found is None
        start = found or self._without_beginning()
        own = [record for record in start.records if record[:2] == (agent, key)]
        self.start = start._replace(records=own)
        inherited = start.head.letters_next
        self.letters = [x for x in everything if x.id >= inherited and self._is_own(x)]

    def _is_own(self, letter: Letter) -> bool:
        return (letter.agent, letter.key) == (self.agent, self.key)

    def _without_beginning(self) -> Start:
        """Where retention has cut, and no snapshot helps: the agent may be younger than that."""
        start, kept = self.history.begin(), self.history.first_kept()
        if kept is None or kept[0] == 0:
            return start
        first = self.history.view.journal(0, 1)
        fired = first[0].first if first else self.history.end.journal_next
        return start._replace(head=start.head._replace(position=kept[0], journal_next=fired))

    def replay(self) -> Replay:
        """A fresh one."""
        condemned = {x.position: x.error for x in self.letters if x.error == CONDEMNED}
        return Replay(
            self._fleet,
            self._codebook,
            self.history.layout,
            self.start,
            only=(self.agent, self.key),
            letter_of=self._all_letters.get,
            condemned=condemned,
        )

    def difference_at_end(self, replay: Replay) -> tuple[str, object, object] | None:
        """Between what a replay of everything has made and what is committed."""
        committed = self.history.view.record(self.agent, self.key)
        return first_field(
            self.values.agent(committed), self.values.agent(replay.record(self.agent, self.key))
        )


def state_at(
    fleet: Callable[[], tuple[FleetModel, Codebook]],
    engine: Engine,
    agent: str,
    key: str,
    moment: float | datetime,
    snapshots: str | None = None,
) -> Record | None:
    """The agent as it was at a time. One that has not changed since needs no `fleet`.

    Where retention has cut history off, it is folded from a snapshot on: of the store with the URL
    `snapshots`, or beside the data.
    """
    time = moment.timestamp() if isinstance(moment, datetime) else float(moment)
    who = f"{agent}/{key}"
    if not time <= system_clock().wall:
        raise UsageError(f"{who} at {written(time)}: that is in the future: give a time before now")
    numbers = partitions_of(engine.catalog, key)
    committed = engine.view(numbers[-1]).record(agent, key)
    if committed is not None and committed.updated <= time:
        return committed
    lives = [History(engine, number) for number in numbers]
    kept = ((life, each) for life in lives for each in life.view.frames(life.view.inbox_first(), 1))
    first = next((frame for life, frame in kept if frame.first < life.end.position), None)
    with snapshots_at(snapshots, engine) as store:
        if (first is None or time < first.stamp) and not any(
            is_begun(life, store, time) for life in lives
        ):
            begins = "there is none" if first is None else f"it begins at {written(first.stamp)}"
            raise UsageError(f"{who} at {written(time)}: that is before the history: {begins}")
        return record_at(*fleet(), engine, agent, key, time, store)


def record_at(
    fleet: FleetModel,
    codebook: Codebook,
    engine: Engine,
    agent: str,
    key: str,
    time: float,
    store: SnapshotStore | None = None,
) -> Record | None:
    """The agent as it was after all that came up to `time`; None if there was none.

    The whole history of the agent is folded once more to see that this code makes of it what was
    committed. Otherwise nobody could say what the state was then.
    """
    for number in reversed(partitions_of(engine.catalog, key)):
        past = Past(fleet, codebook, engine, number, agent, key, store, by=time)
        if past.start.head.now <= time:
            break
    who = f"{agent}/{key}"
    kept = past.history.first_kept() if past.is_cut else None
    if kept is not None and time < kept[1]:
        raise UsageError(f"{who} at {written(time)}: {why_not(past.history, store)}")
    moment, whole = past.replay(), past.replay()
    for _ in past.history.run(moment, Until(time=time)):
        pass
    for _ in past.history.run(whole):
        pass
    found = past.difference_at_end(whole)
    if found is not None and past.is_cut:
        raise UsageError(
            f"{who} at {written(time)}: the agent is older than what is kept: "
            f"{why_not(past.history, store)}"
        )
    if found is not None:
        field, committed, replayed = found
        raise UsageError(
            f"{who}: this code makes another state of its history ({field}: {committed!r} is "
            f"committed, {replayed!r} comes out): run the code of then; `holdfast replay "
            f"--agent {who}` tells more"
        )
    return moment.record(agent, key)


# ---------------------------------------------------------------- comparing


def compare_agent(
    engine: Engine,
    fleet: FleetModel,
    agent: str,
    key: str,
    until: Until = END,
    store: SnapshotStore | None = None,
) -> list[Outcome]:
    """One agent in every partition it has lived in, the oldest first, up to a difference."""
    from holdfast.runtime.schemas import codebook_of

    codebook = codebook_of(fleet, engine.catalog.schemas())
    outcomes = []
    lived = False
    for number in partitions_of(engine.catalog, key):
        past = Past(fleet, codebook, engine, number, agent, key, store)
        if past.is_cut or (past.start.what and until.is_before(past.start.head)):
            outcomes.append(Outcome(number, begins=why_not(past.history, store)))
            lived = True
            continue
        outcomes.append(AgentComparison(past, until).run())
        if outcomes[-1].difference is not None:
            break
        lived = lived or bool(past.start.records or outcomes[-1].events or outcomes[-1].fired)
    if not lived and not any(outcome.difference for outcome in outcomes):
        raise UsageError(
            f"nothing has come to {agent}/{key}{'' if until == END else ' by then'}: there is "
            f"nothing to compare; `holdfast state {agent}` lists who there is"
        )
    return outcomes


class AgentComparison:
    """Actions and dead letters in order, and the state at the end: sums are of all agents."""

    def __init__(self, past: Past, until: Until) -> None:
        self._past = past
        self._until = until
        self._replay = past.replay()
        self._letters = list(past.letters)
        first = past.start.head.actions_next
        self._actions = OwnActions(past.history.view, past.agent, past.key, first)
        self._outcome = Outcome(past.history.number, since=past.start.what)
        self._last = Taken(0, "", "")

    def run(self) -> Outcome:
        outcome, past = self._outcome, self._past
        for commit in past.history.run(self._replay, self._until):
            outcome.commits += 1
            self._last = self._replay.first_inputs().get((past.agent, past.key), self._last)
            outcome.events += sum(len(inputs) for inputs in self._replay.batch)
            outcome.fired += len(self._replay.fired)
            made = actions_in(commit.issued.frame) if commit.issued is not None else []
            outcome.difference = (
                self._unfired() or self._issued(made) or self._buried(commit.letters)
            )
            if outcome.difference is not None:
                return outcome
        if self._until == END:
            outcome.agents = 1
            outcome.difference = self._end()
        return outcome

    def _unfired(self) -> Difference | None:
        for firing in self._replay.unfired:
            what = f"timer {firing.name!r}" if firing.event else "its expiry"
            return self._difference(f"{what} fired, which is not set", firing.due, None)
        return None

    def _issued(self, made: list[Output]) -> Difference | None:
        for one in made:
            recorded = self._actions.peek()
            same = recorded is not None and recorded[:3] == one[:3]
            shown = [self._shown(each) for each in (recorded, one)]
            if same and shown[0] == shown[1]:
                self._actions.pop()
            elif not self._actions.may_be_gone(one):
                return self._difference("an action", *shown)
        return None

    def _shown(self, output: Output | None) -> list[object] | None:
        if output is None:
            return None
        named = self._past.values.named(output.schema, output.row)
        return [text_of(*named), *output.about]

    def _buried(self, made: list[Letter]) -> Difference | None:
        for letter in made:
            was = self._letters.pop(0) if self._letters else None
            if was is None or not same_letter(was, letter._replace(id=was.id)):
                return self._difference("a dead letter", was and was.error, letter.error)
        return None

    def _end(self) -> Difference | None:
        left = self._actions.peek()
        if left is not None:
            return self._difference("an action", self._shown(left), None)
        if self._letters:
            return self._difference("a dead letter", self._letters[0].error, None)
        found = self._past.difference_at_end(self._replay)
        return None if found is None else self._difference(*found)

    def _difference(self, what: str, committed: object, replayed: object) -> Difference:
        who, last = f"{self._past.agent}/{self._past.key}", self._last
        event = str(last.event) if last.event else last.origin
        number = self._past.history.number
        return Difference(number, last.position, who, event, what, committed, replayed)
