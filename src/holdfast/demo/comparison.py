"""The comparison: what is stored against what must follow from the stored inputs.

Twins (oracle.py) take every stored input in order; then their messages, actions, timers and states
are held against the stored ones. An agent whose inputs are faulty themselves is left out of what
follows from them, so that one fault is counted once and not again in all its consequences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from holdfast.demo.evidence import Evidence, Fired, Row, StoredAction, StoredState
from holdfast.demo.findings import Findings
from holdfast.demo.oracle import TWINS, Twin

OVERDUE_SECONDS = 5.0  # far longer than any commit takes; a timer this late was forgotten

Name = tuple[str, str]  # class and key of an agent
Pair = tuple[Name, Name]  # from, to
Content = tuple[str, tuple[float, ...]]


class Comparison:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._twins: dict[Name, Twin] = {}
        self._delivered: dict[Pair, list[tuple[float, Content]]] = defaultdict(list)
        self._timer_faults: list[tuple[Name, str, str]] = []  # told once we know who is sound
        self._now = 0.0
        self._end = 0.0

    # Feeding the twins, one partition after the other.

    def begin_partition(self) -> None:
        self._now = 0.0

    def take(self, row: Row, *, folded: bool) -> None:
        name = (row.agent, row.key)
        if row.sender:
            self._findings.stored["messages"] += 1
            number = row.values[0] if row.values else 0
            pair = ((row.sender_agent, row.sender), name)
            self._delivered[pair].append((number, (row.name, row.values)))
        if folded:
            if row.stamp > self._now:
                self._now = row.stamp
            twin = self._twins.get(name) or self._twin(name)
            if twin is not None:
                twin.take(row.name, row.values, row.sender, self._now)

    def fire(self, fired: Fired) -> None:
        self._findings.stored["timers"] += 1
        name = (fired.agent, fired.key)
        what = f"{fired.timer} of {'/'.join(name)} before position {fired.position:,}"
        if fired.now < max(self._now, fired.due):
            self._timer_faults.append((name, "wrong", f"{what} fired before its time"))
        self._now = max(self._now, fired.now)
        twin = self._twin(name)
        if twin is None:
            return
        problem = twin.fire(fired.timer, fired.due, fired.name, fired.values)
        if problem is not None:
            fault = "doubled" if fired.timer not in twin.timers else "wrong"
            self._timer_faults.append((name, fault, f"{what} fired, but {problem}"))
        twin.take(fired.name, fired.values, "", self._now)

    def end_partition(self) -> None:
        self._end = max(self._end, self._now)

    def _twin(self, name: Name) -> Twin | None:
        twin = self._twins.get(name)
        if twin is None and name[0] in TWINS:
            twin = self._twins[name] = TWINS[name[0]](name[1])
        return twin

    def compare(self, partitions: Sequence[Evidence]) -> None:
        self._compare_messages(partitions)
        self._compare_actions(partitions)
        self._compare_states(partitions)

    def _sound(self) -> list[Twin]:
        tainted = self._findings.tainted
        return [twin for name, twin in self._twins.items() if name not in tainted]

    # Messages. First the numbering, which needs no rules, then the content.

    def _compare_messages(self, partitions: Sequence[Evidence]) -> None:
        missing = {pair: self._check_numbers(pair) for pair in list(self._delivered)}
        marks = [evidence.view.marks() for evidence in partitions]
        waiting = {
            (((m.sender_agent, m.sender), (m.agent, m.key)), m.values[0])
            for evidence in partitions
            for m in evidence.undelivered(marks)
        }
        if waiting:
            self._findings.fault("messages", "not delivered yet", "in an outbox", len(waiting))
        expected: dict[Pair, dict[float, Content]] = defaultdict(dict)
        for twin in self._twins.values():
            for told in twin.messages:
                pair = ((twin.agent, twin.key), (told.agent, told.key))
                expected[pair][told.values[0]] = (told.name, told.values)
        self._findings.due["messages"] = sum(map(len, expected.values()))
        for pair, contents in expected.items():
            if pair[0] not in self._findings.tainted:
                gone = set(contents) - {number for number, _ in self._delivered.get(pair, [])}
                gone -= missing.get(pair, set())
                self._lost(pair, {n for n in gone if (pair, n) not in waiting})
        for pair, found in self._delivered.items():
            if pair[0] not in self._findings.tainted:
                self._check_contents(pair, found, expected.get(pair, {}))
        self._check_counters(partitions)

    def _check_numbers(self, pair: Pair) -> set[float]:
        """Messages of a pair are numbered from 1 on. The numbers that are missing in between."""
        seen: set[float] = set()
        last = 0.0
        for number, _ in self._delivered[pair]:
            if number in seen:
                self._message_fault(pair, "doubled", f"number {number}")
                continue
            if number < last:
                self._message_fault(pair, "out of order", f"{number} after {last}")
            seen.add(number)
            last = number
        missing = {float(n) for n in range(1, int(max(seen)) + 1)} - seen
        self._lost(pair, missing)
        return missing

    def _lost(self, pair: Pair, numbers: set[float]) -> None:
        for number in sorted(numbers):
            self._message_fault(pair, "lost", f"number {number:g}")

    def _message_fault(self, pair: Pair, fault: str, what: str) -> None:
        text = f"from {'/'.join(pair[0])} to {'/'.join(pair[1])}, {what}"
        self._findings.fault("messages", fault, text)
        self._findings.taint(*pair[1])

    def _check_contents(
        self, pair: Pair, found: list[tuple[float, Content]], expected: dict[float, Content]
    ) -> None:
        for number, content in dict(found).items():
            if expected.get(number) != content:
                self._message_fault(pair, "wrong", f"number {number:g}: {content}")

    def _check_counters(self, partitions: Sequence[Evidence]) -> None:
        counted = sum(evidence.messages_sent() for evidence in partitions)
        due = self._findings.due["messages"]
        if counted != due and not self._findings.tainted:
            text = f"the partitions have counted {counted:,}, {due:,} follow from the inputs"
            self._findings.fault("messages", "wrong", text)

    # Actions.

    def _compare_actions(self, partitions: Sequence[Evidence]) -> None:
        stored: dict[Name, list[StoredAction]] = defaultdict(list)
        for evidence in partitions:
            for action in evidence.actions():
                stored[action.agent, action.key].append(action)
        self._findings.stored["actions"] = sum(map(len, stored.values()))
        self._findings.due["actions"] = sum(len(twin.actions) for twin in self._twins.values())
        for name, actions in stored.items():
            self._check_order(name, actions)
        for twin in self._sound():
            self._check_actions(twin, stored.get((twin.agent, twin.key), []))

    def _check_order(self, name: Name, actions: list[StoredAction]) -> None:
        seen: set[tuple[int, int]] = set()
        last = (0, 0)
        for action in actions:
            identity = (action.version, action.number)
            if identity in seen:
                self._action_fault(name, "doubled", action)
            elif identity < last:
                self._action_fault(name, "out of order", action)
            seen.add(identity)
            last = identity

    def _check_actions(self, twin: Twin, actions: list[StoredAction]) -> None:
        found = {(action.version, action.number): action for action in actions}
        for did in twin.actions:
            action = found.pop((did.version, did.number), None)
            name = (twin.agent, twin.key)
            if action is None:
                self._action_fault(name, "lost", StoredAction._make((*name, *did)))
            elif action[2:] != did:
                self._action_fault(name, "wrong", action)
        for action in found.values():
            self._action_fault((twin.agent, twin.key), "wrong", action)

    def _action_fault(self, name: Name, fault: str, action: StoredAction) -> None:
        text = f"{action.name}{action.values} of {'/'.join(name)}, its event {action.version:,}"
        self._findings.fault("actions", fault, text)

    # States, with the timers that are set in them.

    def _compare_states(self, partitions: Sequence[Evidence]) -> None:
        findings = self._findings
        stored = {(s.agent, s.key): s for evidence in partitions for s in evidence.states()}
        findings.due["states"] = len(self._twins)
        findings.stored["states"] = len(stored)
        findings.folded["events"] = _total(stored, "Drone", "folded")
        findings.folded["messages"] = _total(stored, "Station", "folded")
        findings.folded["messages"] += _total(stored, "Drone", "grants")
        for name, fault, text in self._timer_faults:
            if name not in findings.tainted:
                findings.fault("timers", fault, text)
        for name in stored.keys() - self._twins.keys():
            findings.fault("states", "wrong", f"{'/'.join(name)} never had an input")
        for twin in self._sound():
            state = stored.get((twin.agent, twin.key))
            if state is None:
                findings.fault("states", "lost", f"{twin.agent}/{twin.key} has no state")
            else:
                self._check_state(twin, state)
                self._check_timers(twin, state)
        findings.due["timers"] = (
            findings.stored["timers"]
            + findings.faults["timers", "lost"]
            - findings.faults["timers", "doubled"]
        )

    def _check_state(self, twin: Twin, state: StoredState) -> None:
        expected = twin.state()
        name = f"{twin.agent}/{twin.key}"
        subject = "events" if twin.agent == "Drone" else "messages"
        if (folded := state.values.get("folded")) != twin.folded and isinstance(folded, int):
            fault = "doubled" if folded > twin.folded else "lost"
            text = f"{name} has folded {folded:,}, {twin.folded:,} are in the log"
            self._findings.fault(subject, fault, text, abs(folded - int(twin.folded)))
            return
        if state.values.get("out_of_order") != twin.out_of_order:
            text = f"{name} has folded its inputs in another order than they are stored"
            self._findings.fault(subject, "out of order", text)
            return
        for field, value in expected.items():
            if state.values.get(field) != value:
                text = f"{name}.{field} is {state.values.get(field)!r}, must be {value!r}"
                self._findings.fault("states", "wrong", text)
                return
        if state.version != twin.version or state.paused or state.held:
            text = f"{name} is at version {state.version}, must be at {twin.version}"
            self._findings.fault("states", "wrong", text)

    def _check_timers(self, twin: Twin, state: StoredState) -> None:
        for timer, armed in twin.timers.items():
            what = f"{timer} of {twin.agent}/{twin.key}"
            if timer not in state.timers:
                self._findings.fault("timers", "lost", f"{what} is not set any more")
            elif state.timers[timer] != armed:
                text = f"{what} is set as {state.timers[timer]}, must be {armed}"
                self._findings.fault("timers", "wrong", text)
            elif armed[0] < self._end - OVERDUE_SECONDS:
                self._findings.fault("timers", "lost", f"{what} did not fire when it was due")
        for timer in state.timers.keys() - twin.timers.keys():
            text = f"{timer} of {twin.agent}/{twin.key} is set, and must not be"
            self._findings.fault("timers", "wrong", text)


def _total(stored: dict[Name, StoredState], agent: str, field: str) -> int:
    values = [state.values.get(field) for name, state in stored.items() if name[0] == agent]
    return sum(value for value in values if isinstance(value, int))
