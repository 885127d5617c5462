"""A partition replayed and compared with what it has committed, up to the first difference.

Per commit: the sum of the states that changed (where a note has it), timers, actions, messages and
dead letters. At the end every agent by value. Where a sum differs, bytes differ; whether values do
is seen in the agent's committed state, at the end of the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from holdfast.engine.port import Engine
from holdfast.model.fleet import FleetModel
from holdfast.runtime.partition import CONDEMNED
from holdfast.runtime.replaying.feeding import END, Until
from holdfast.runtime.replaying.history import History
from holdfast.runtime.replaying.recorded import (
    ActionFeed,
    MessageFeed,
    Output,
    messages_in,
    same_letter,
)
from holdfast.runtime.replaying.replay import Behind, Replay, Start, Taken
from holdfast.runtime.replaying.standing import Standing, first_unequal, read_standing
from holdfast.runtime.replaying.values import Values, first_field, text_of
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.commit import Commit, Letter, Record
from holdfast.stepping.frame import Frame
from holdfast.stepping.script import Firing, read_firings

Name = tuple[str, str]


class Difference(msgspec.Struct):
    """The first thing that came out otherwise. `committed` and `replayed` are plain values."""

    partition: int
    position: int | None
    agent: str  # agent/key, or "" where it cannot be told
    event: str  # that the agent took there
    what: str
    committed: object
    replayed: object


class Outcome(msgspec.Struct):
    partition: int
    events: int = 0
    fired: int = 0
    commits: int = 0
    sums: int = 0  # commits whose sum was compared
    agents: int = 0  # compared at the end
    begins: str = ""  # why it could not begin; then nothing was compared
    since: str = ""  # the snapshot it began with; "": the first event
    difference: Difference | None = None


class Suspect(msgspec.Struct):
    """The first commit of an agent whose bytes were other ones."""

    commit: int
    position: int
    event: str
    record: Record


class Comparison:
    def __init__(
        self,
        fleet: FleetModel,
        codebook: Codebook,
        engine: Engine,
        history: History,
        start: Start,
        until: Until = END,
    ) -> None:
        self._history = history
        self._until = until
        self._values = Values(codebook)
        view = history.view
        self._letters = {letter.id: letter for letter, _ in view.letters()}
        condemned = {
            letter.position: letter.error
            for letter in self._letters.values()
            if letter.error == CONDEMNED and letter.id >= start.head.letters_next
        }
        self._replay = Replay(fleet, codebook, history.layout, start, condemned=condemned)
        # Somebody may fold on: states are read as of a commit between two heads.
        self._earliest = history.end.commits
        self._committed: dict[Name, Record] = {}
        self._standing: Standing | None = None
        if until == END:
            self._committed = {(r.agent, r.key): r for r in view.records()}
            history.end, self._standing = read_standing(view)
        self._actions = ActionFeed(view, self._replay.head.actions_next)
        self._messages = {
            number: MessageFeed(
                engine.view(number),
                history.layout,
                history.number,
                start.behind.get(number, Behind()),
            )
            for number in history.layout.numbers
        }
        self._suspects: dict[Name, Suspect] = {}
        self._certain: Difference | None = None  # bytes differ where that means values do
        self._unequal: set[Name] | None = None  # agents that were never as they were read
        self._start = start.head
        self.outcome = Outcome(history.number, since=start.what)

    @property
    def replay(self) -> Replay:
        """As far as `run` has come."""
        return self._replay

    @property
    def is_sure(self) -> bool:
        """Whether every commit had the bytes that were committed; others may be the same states."""
        return not self._suspects

    def run(self) -> Outcome:
        outcome = self.outcome
        for commit in self._history.run(self._replay, self._until):
            outcome.commits += 1
            outcome.events = commit.head.position - self._start.position
            outcome.fired = commit.head.journal_next - self._start.journal_next
            found = None if self._certain else self._outputs(commit)
            self._compare_sum(commit)
            if found is not None and self._certain is None:
                outcome.difference = found
                return outcome
            if self._until == END and commit.head.commits >= self._earliest:
                self._compare_states(commit.changed)
        outcome.difference = self._end() if self._until == END else self._certain
        return outcome

    # Per commit.

    def _outputs(self, commit: Commit) -> Difference | None:
        return (
            self._firings(commit)
            or self._issued(commit)
            or self._sent(commit)
            or self._buried(commit)
        )

    def _firings(self, commit: Commit) -> Difference | None:
        for firing in self._replay.unfired:
            who = f"{firing.agent}/{firing.key}"
            what = f"timer {firing.name!r}" if firing.event else "its expiry"
            timer = firing.event is not None and firing.taken is None
            event = self._values.text(*firing.event) if firing.event and timer else firing.origin
            text = f"{what} fired, which is not set"
            if firing.taken is not None:
                text = "an urgent command, which is not done here"
            return self._difference(firing.position, who, event, text, firing.due, None)
        if commit.journalled is None:
            return None
        for was, now in zip(self._replay.fired, read_firings(commit.journalled), strict=True):
            pair = [(f.due, self._event_of(f)) for f in (was, now)]
            if pair[0] != pair[1]:
                who, what = f"{was.agent}/{was.key}", f"timer {was.name!r} that fired"
                return self._difference(was.position, who, was.origin, what, *pair)
        return None

    def _event_of(self, firing: Firing) -> object:
        """Of the urgent lane it is the frame: what was taken, not what was made."""
        if firing.event is None or firing.taken is not None:
            return firing.event
        return self._values.named(*firing.event)

    def _issued(self, commit: Commit) -> Difference | None:
        note = self._replay.note
        count = None if note is None else note.issued
        first = commit.before.actions_next
        for recorded, made in self._actions.beside(first, commit.issued, count):
            if not self._same(made, recorded):
                return self._of_output("an action", recorded, made)
        return None

    def _sent(self, commit: Commit) -> Difference | None:
        for out in commit.outgoing:
            feed = self._messages[out.destination]
            if not feed.whole:
                continue
            for made in messages_in(Frame.decode(out.frame)):
                recorded = feed.pop()
                if recorded is None:
                    feed.whole = False  # the rest waits to be relayed
                    break
                if not self._same(made, recorded):
                    return self._of_output("a message", recorded, made)
        note, made_note = self._replay.note, commit.note
        if note is None or made_note is None or made_note.sent >= note.sent:
            return None
        for feed in self._messages.values():
            missing = feed.peek() if feed.whole else None
            if missing is not None and cast(float, missing.about[-1]) <= note.now:
                return self._of_output("a message", missing, None)
        return self._difference(note.position, "", "", "messages", note.sent, made_note.sent)

    def _same(self, made: Output | None, recorded: Output | None) -> bool:
        if made == recorded:
            return True
        if made is None or recorded is None or made[:3] != recorded[:3]:
            return False
        ours, theirs = (self._values.named(each.schema, each.row) for each in (made, recorded))
        return ours == theirs

    def _of_output(self, what: str, was: Output | None, made: Output | None) -> Difference:
        one = was or made
        assert one is not None
        who = f"{one.agent}/{one.key}"
        taken = self._taken(one.agent, one.key)
        shown = [None if each is None else self._shown(each) for each in (was, made)]
        return self._difference(taken.position, who, _text(taken), what, *shown)

    def _shown(self, output: Output) -> list[object]:
        return [text_of(*self._values.named(output.schema, output.row)), *output.about]

    def _buried(self, commit: Commit) -> Difference | None:
        for letter in commit.letters:
            was = self._letters.get(letter.id)
            if was is None or not self._same_letters(was, letter):
                return self._of_letter(was, letter)
        note = self._replay.note
        if note is not None and len(commit.letters) < note.letters:
            return self._of_letter(self._letters[commit.head.letters_next], None)
        return None

    def _same_letters(self, one: Letter, other: Letter) -> bool:
        return same_letter(one, other) and self._values.named(
            one.schema, one.row
        ) == self._values.named(other.schema, other.row)

    def _of_letter(self, was: Letter | None, made: Letter | None) -> Difference:
        one = was or made
        assert one is not None
        event = self._values.text(one.schema, one.row)
        errors = [None if each is None else each.error for each in (was, made)]
        who = f"{one.agent}/{one.key}"
        return self._difference(one.position, who, event, "a dead letter", *errors)

    def _taken(self, agent: str, key: str) -> Taken:
        nothing = Taken(self._replay.head.position, "", "")
        return self._replay.first_inputs().get((agent, key), nothing)

    def _compare_sum(self, commit: Commit) -> None:
        note, made = self._replay.note, commit.note
        if note is None or made is None:
            return
        self.outcome.sums += 1
        if note.sum == made.sum:
            return
        inputs = self._replay.first_inputs()
        changed = commit.changed
        for record in changed:
            name = record[:2]
            if name not in self._suspects:
                taken = inputs.get(name, Taken(note.position, "", ""))
                suspect = Suspect(note.number, taken.position, _text(taken), record)
                self._suspects[name] = suspect
        plain = all(self._values.is_plain(each) for each in {r.schema for r in changed})
        # The same states have another sum in another form: once the class was compiled or is, or
        # an older release has written it.
        alike = (note.form, note.in_blocks) == (made.form, made.in_blocks)
        if plain and alike and self._certain is None:
            self._certain = self._of_commit(commit, changed, note.sum, made.sum)

    def _of_commit(self, commit: Commit, changed: list[Record], was: int, made: int) -> Difference:
        agents = [f"{r.agent}/{r.key}" for r in changed]
        suspect = self._suspects[changed[0][:2]] if len(agents) == 1 else None
        return self._difference(
            commit.before.position if suspect is None else suspect.position,
            agents[0] if suspect else "",
            "" if suspect is None else suspect.event,
            f"the sum of commit {commit.head.commits}, which changed {_list(agents)}",
            f"{was:08x}",
            f"{made:08x}",
        )

    # At the end.

    def _compare_states(self, changed: Iterable[Record] = ()) -> None:
        """Whether agents are, after this commit, as they were when they were read."""
        if self._unequal is None:
            ours = {(r.agent, r.key) for r in self._replay.records()}
            names: set[Name] = ours | self._committed.keys()
            self.outcome.agents = len(names)
            self._unequal = {name for name in names if self._field_of(name)}
        else:
            self._unequal -= {r[:2] for r in changed if self._field_of(r[:2]) is None}

    def _field_of(self, name: Name) -> tuple[str, object, object] | None:
        was, made = self._committed.get(name), self._replay.record(*name)
        if was is not None and made is not None and was[2:6] == made[2:6]:
            return None
        return first_field(self._values.agent(was), self._values.agent(made))

    def _end(self) -> Difference | None:
        if self._unequal is None:
            self._compare_states()
        unequal = self._unequal or set()
        suspects = [name for name in unequal if name in self._suspects]
        if suspects:
            return self._of_suspect(min(suspects, key=self._order))
        if self._certain is not None:
            return self._certain
        if unequal:
            return self._of_agent(min(unequal))
        return self._counters() or self._beside()

    def _beside(self) -> Difference | None:
        found = None if self._standing is None else first_unequal(self._standing, self._replay)
        return None if found is None else self._difference(None, found.agent, "", *found[1:])

    def _order(self, name: Name) -> tuple[int, int]:
        return self._suspects[name].commit, self._suspects[name].position

    def _of_suspect(self, name: Name) -> Difference:
        suspect, was = self._suspects[name], self._committed.get(name)
        if was is not None and was.version == suspect.record.version:
            pair = first_field(self._values.agent(was), self._values.agent(suspect.record))
        else:
            pair = None
        field, committed, replayed = pair or self._field_of(name) or ("", None, None)
        later = "" if pair else ", at the end of the history"
        what = f"{field} after commit {suspect.commit}{later}"
        who = "/".join(name)
        return self._difference(suspect.position, who, suspect.event, what, committed, replayed)

    def _of_agent(self, name: Name) -> Difference:
        """All sums agree, so it was not folded into what it is."""
        field, committed, replayed = self._field_of(name) or ("", None, None)
        noted = self.outcome.sums == self.outcome.commits
        what = f"{field}, although every commit agrees" if noted else field
        who = "/".join(name)
        return self._difference(None, who, "", what, committed, replayed)

    def _counters(self) -> Difference | None:
        was, made = self._history.end, self._replay.head
        for field in ("position", "actions_next", "letters_next", "journal_next", "calls_next"):
            pair = getattr(was, field), getattr(made, field)
            if pair[0] != pair[1]:
                return self._difference(made.position, "", "", f"the counter {field}", *pair)
        return None

    def _difference(
        self,
        position: int | None,
        agent: str,
        event: str,
        what: str,
        committed: object,
        replayed: object,
    ) -> Difference:
        number = self._history.number
        return Difference(number, position, agent, event, what, committed, replayed)


def _text(taken: Taken) -> str:
    return str(taken.event) if taken.event else taken.origin


def _list(names: list[str]) -> str:
    rest = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest}"
