"""What can be read: agents, histories, timers, dead letters, as values that JSON has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice

from holdfast.errors import Missing, TimedOut, UsageError
from holdfast.gateway.past import state_then
from holdfast.gateway.settings import Settings
from holdfast.model.fleet import FleetModel
from holdfast.model.keys import check_key
from holdfast.runtime.reading import DeadLetter, HistoryEntry, IssuedAction, Plain
from holdfast.runtime.untyped import AgentState, UntypedLive, read_receipt

HISTORY_SECONDS = 20.0  # a history is found by reading the log: not for longer

Values = dict[str, object]


class _CodeIsNeeded(Exception):
    """The agent has changed since the time that is asked for."""


def _needed() -> FleetModel:
    raise _CodeIsNeeded


class Reader:
    def __init__(self, live: UntypedLive, settings: Settings) -> None:
        self._live = live
        self._settings = settings

    def agents(self, agent: str, beginning: str, most: int) -> Values:
        self.check_agent(agent)
        found = list(islice(self._live.states(agent, beginning=beginning), most + 1))
        following = found[most].key if len(found) > most else None
        return {"agents": [state_values(each) for each in found[:most]], "next": following}

    def state(
        self, agent: str, key: str, after: str | None, timeout: float, at: float | None
    ) -> AgentState:
        self.check_agent(agent)
        check_key(key)
        receipt = None if after is None else read_receipt(after)
        if receipt is not None:
            self._live.wait_for(receipt, timeout=timeout)
        try:
            found = self._live.state(
                agent, key, at=at, fleet=_needed, snapshots=self._settings.snapshots
            )
        except _CodeIsNeeded:
            assert at is not None
            found = state_then(self._settings, agent, key, at)
        if found is None:
            then = " then" if at is not None else ""
            raise Missing(f"{agent}/{key} has no state{then}: no event has changed it yet")
        return found

    def history(self, agent: str, key: str, most: int) -> Values:
        """The newest, oldest of them first."""
        self.check_agent(agent)
        entries = _in_time(self._live.history(agent, key), f"the history of {agent}/{key}")
        last = deque(entries, maxlen=most)
        return {"entries": [_entry_values(each) for each in last]}

    def timers(self, agent: str, key: str) -> Values:
        self.check_agent(agent)
        found = self._live.timers(agent, key)
        if found is None:
            raise Missing(f"{agent}/{key} has no state: no event has changed it yet")
        return {"timers": [{**asdict(each), "event": _event_values(each.event)} for each in found]}

    def dead_letters(self, most: int) -> Values:
        """The newest, oldest of them first."""
        found = self._live.dead_letters()
        return {"dead_letters": [letter_values(each) for each in found[-most:]], "all": len(found)}

    def partitions(self) -> Values:
        positions = self._live.positions()
        rows = [
            {"partition": n, "inbox": p.inbox, "folded": p.folded, "lag": p.lag}
            for n, p in positions.items()
        ]
        return {"partitions": rows}

    def check_agent(self, agent: str) -> None:
        try:
            self._live.names.check_agent(agent)
        except UsageError as error:
            raise Missing(str(error)) from None


def _in_time(entries: Iterator[HistoryEntry], what: str) -> Iterator[HistoryEntry]:
    deadline = time.monotonic() + HISTORY_SECONDS
    for entry in entries:
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{what} took longer than {HISTORY_SECONDS:g} s: read it with `holdfast history`"
            )
        yield entry


def state_values(found: AgentState) -> Values:
    return {
        "agent": found.agent,
        "key": found.key,
        "version": found.version,
        "updated": found.updated,
        "state": found.values,
    }


def _entry_values(entry: HistoryEntry) -> Values:
    return {**asdict(entry), "event": _event_values(entry.event)}


def action_values(issued: IssuedAction) -> Values:
    action = issued.action
    assert isinstance(action, Plain)
    values = {name: getattr(issued, name) for name in ("id", "agent", "key")}
    rest = ("now", "expires_at", "priority", "undoes", "why")
    return {
        **values,
        "type": action.name,
        "data": action.values,
        **{name: getattr(issued, name) for name in rest},
        "traceparent": issued.trace or None,
    }


def letter_values(letter: DeadLetter) -> Values:
    return {**asdict(letter), "event": _event_values(letter.event)}


def _event_values(event: object) -> object:
    """Commands of operators are texts, expiries nothing."""
    return {"type": event.name, "data": event.values} if isinstance(event, Plain) else event
