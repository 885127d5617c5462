"""TIMERS: what fired was armed and due, and nothing that was due was left."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.event import Event
from holdfast.stepping.commit import Commit
from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import Fired, extras_of, is_row_of
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History, Partition
from holdfast.testing.simulation.plainagent import PlainAgent
from holdfast.testing.simulation.plaincontext import PlainTimer
from holdfast.testing.simulation.plainfates import TOLD
from holdfast.testing.simulation.reference import Reference


class Firing(NamedTuple):
    """A firing and what was around it. In front of an event that waits, its stamp is the time up
    to which timers fire; otherwise the clock is, which the journal tells if it moved."""

    fired: Fired
    commit: Commit
    stamp: float | None  # of the event at that position, if one ever came
    waited: bool  # that event was there before this commit was begun

    @property
    def in_front(self) -> bool:
        return self.waited or self.fired.position < self.commit.head.position


class Timing:
    def __init__(self, history: History, partition: Partition, report: Report) -> None:
        self._schemas = history.schemas
        self._number = partition.number
        self._report = report

    def _found(self, name: tuple[str, str], text: str) -> None:
        who = f"{name[0]}/{name[1]}"
        self._report.add(Promise.TIMERS, f"{who}: {text}", self._number, who)

    def fire(self, reference: Reference, firing: Firing) -> None:
        """Judge one firing, then let the reference do the same, if it can."""
        fired = firing.fired
        name = fired.agent, fired.key
        if fired.name == TOLD and fired.raw is not None:
            self._tell(reference, firing, reference.release.read(fired.raw))
            return
        self._judge_clock(reference, firing)
        agent = reference.agents.get(name)
        if agent is None:
            self._found(name, f"timer {fired.name!r} fired, but there is no such agent")
            return
        if reference.earliest < fired.due:
            left = reference.overdue(reference.earliest)[0]
            text = f"due at {fired.due}, went before {left[0]}/{left[1]}"
            self._found(name, f"{text}, due at {reference.earliest}")
        if fired.raw is None:
            self._expire(reference, agent, fired)
            return
        agent = agent.read_by(reference.release)
        timer = agent.timers.get(fired.name)
        if timer is None:
            self._found(name, f"timer {fired.name!r} fired, but it is not set")
            return
        if timer.due != fired.due or not is_row_of(self._schemas, fired.raw, timer.event):
            self._found(name, f"timer {fired.name!r} fired as due at {fired.due}, set is {timer}")
        if timer.period and agent.paused:
            self._found(name, f"periodic timer {fired.name!r} fired in a pause")
        due = _next_due(timer, firing, reference.now) if timer.period else 0.0
        reference.fire(name, fired.name, fired.now, due)

    def _tell(self, reference: Reference, firing: Firing, event: Event) -> None:
        """Told of a ground stop: at the time of its command, which stands behind it."""
        fired, name = firing.fired, (firing.fired.agent, firing.fired.key)
        expected = max(reference.now, firing.stamp or 0.0)
        if fired.now != expected or fired.due != expected:
            self._found(name, f"was told at {fired.now} of a ground stop, expected {expected}")
        if name not in reference.agents:
            self._found(name, "was told of a ground stop, but there is no such agent")
            return
        reference.tell(name, event, fired.now)

    def _judge_clock(self, reference: Reference, firing: Firing) -> None:
        fired = firing.fired
        name = fired.agent, fired.key
        if fired.now < fired.due:
            self._found(name, f"timer {fired.name!r} due at {fired.due} fired at {fired.now}")
        if fired.now < reference.now:
            self._found(name, f"the clock went back from {reference.now} to {fired.now}")
        expected = max(reference.now, fired.due)
        if firing.in_front and fired.now != expected:
            text = f"timer {fired.name!r} fired at {fired.now} in front of an event"
            self._found(name, f"{text}, expected {expected}")
        if firing.in_front and firing.stamp is not None and fired.due > firing.stamp:
            text = f"timer {fired.name!r} due at {fired.due} fired before an event that came first"
            self._found(name, f"{text}, stamped {firing.stamp}")

    def _expire(self, reference: Reference, agent: PlainAgent, fired: Fired) -> None:
        name = fired.agent, fired.key
        expire_after = agent.state.__holdfast__.expire_after
        if expire_after is None or agent.busy:
            self._found(name, "expired, although timers, held events, a pause or its class keep it")
            return
        if fired.due != agent.updated + expire_after:
            text = f"expired as due at {fired.due}, its last event was at {agent.updated}"
            self._found(name, text)
        reference.expire(name, fired.now)

    def nothing_left(self, reference: Reference, until: float, what: str) -> None:
        """Whatever is due must have fired before."""
        if reference.earliest <= until:
            name = reference.overdue(until)[0]
            due = reference.agents[name].next_due
            self._found(name, f"due at {due} and not fired before {what}")


def _next_due(timer: PlainTimer, firing: Firing, now: float) -> float:
    """When a periodic timer is due again: periods that passed meanwhile are skipped."""

    def after(until: float) -> float:
        return timer.due + (int((until - timer.due) / timer.period) + 1) * timer.period

    fired, stamp = firing.fired, firing.stamp
    if firing.in_front and stamp is not None:
        return after(stamp)
    told = _told(firing)
    possible = {after(fired.now)}
    if stamp is not None:
        possible.add(after(stamp))  # it waited, and its turn came in a later commit
    if told in possible:
        return told
    # A clock that was set back fires by what it shows, which the journal does not tell.
    behind = fired.now == now and told is not None and timer.due < told <= after(now)
    if behind and told is not None and told == after(told - timer.period / 2):
        return told
    return after(fired.now)


def _told(firing: Firing) -> float | None:
    """When the timer is due again by the record that the commit stored."""
    fired = firing.fired
    for record in firing.commit.changed:
        if (record.agent, record.key) == (fired.agent, fired.key):
            for timer in extras_of(record.extras).timers:
                if timer.name == fired.name:
                    return timer.due
    return None
