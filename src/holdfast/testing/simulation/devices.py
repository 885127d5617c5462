"""Devices: what numbers events, keeps them until they are acknowledged, and sends them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import HoldfastError, TryAgain
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.rng import Random
from holdfast.runtime.live import Live
from holdfast.runtime.sending import Receipt
from holdfast.testing.generating import generate_event, keys_of
from holdfast.testing.simulation.evidence import Evidence, Outcome, Send
from holdfast.testing.simulation.universe import Universe

SEND_SECONDS = 2.0
EVENTS_PER_SEND = 12
KEYS_PER_AGENT = 3


class Life(NamedTuple):
    """One life of a client process: its name, its handle, and the classes it knows."""

    name: str
    live: Live
    fleet: FleetModel


class Numbered(NamedTuple):
    seq: int
    agent: type[Agent]
    key: str
    event: Event


@dataclass
class Chain:
    """An ordered source: every event names the number before it for its key, one at a time."""

    source: str
    next: int = 1
    last: dict[str, int] = field(default_factory=dict)
    pending: Numbered | None = None


class Device:
    """Outlives the processes that send for it, as the flash of a device does."""

    def __init__(self, universe: Universe, random: Random, notes: Evidence, number: int) -> None:
        self._universe = universe
        self._random = random
        self._notes = notes
        self._source = f"device-{number}"
        self._next = 1
        self.unsent: list[Numbered] = []  # not acknowledged
        self._sent: list[Numbered] = []
        self._chain = Chain(f"logbook-{number}")
        self.receipts: list[tuple[type[Agent], str, Receipt]] = []

    def event(self, fleet: FleetModel) -> tuple[type[Agent], str, Event]:
        """An event that its agent handles, as the world may send it."""
        agents = [a for a in fleet.agents.values() if a.__holdfast__.routes]
        agent = self._random.choice(agents)
        events = list(agent.__holdfast__.routes)
        words = [key for each in agents for key in keys_of(each, KEYS_PER_AGENT)]
        event = generate_event(self._random.choice(events), self._random, words=words)
        return agent, self.key(agent), event

    def key(self, agent: type[Agent]) -> str:
        return self._random.choice(keys_of(agent, KEYS_PER_AGENT))

    def send_new(self, life: Life) -> None:
        count = 1 if self._random.random() < 0.5 else self._random.randint(2, EVENTS_PER_SEND)
        for _ in range(count):
            self.unsent.append(Numbered(self._next, *self.event(life.fleet)))
            self._next += 1
        self._send(life, self.unsent[-count:])

    def send_again(self, life: Life) -> None:
        """What is not acknowledged, in order of its numbers, as far as one send takes it."""
        self._send(life, _run_of(self.unsent))

    def resend(self, life: Life) -> None:
        """What was acknowledged long ago, as if that had been forgotten."""
        sent = self.resendable(life.fleet)
        if sent:
            self._send(life, _run_of(sent[self._random.randint(0, len(sent) - 1) :]))

    def resendable(self, fleet: FleetModel) -> list[Numbered]:
        known = set(fleet.agents.values())  # an upgrade has other classes
        return [one for one in self._sent if one.agent in known]

    def _send(self, life: Life, numbered: list[Numbered]) -> None:
        rows = [(n.agent, n.key, n.event) for n in numbered]
        receipt = self._noted(
            life,
            self._source,
            numbered,
            lambda: life.live.send_many(
                rows, source=self._source, first_seq=numbered[0].seq, timeout=SEND_SECONDS
            ),
        )
        if receipt is not None:
            self.unsent = [n for n in self.unsent if n not in numbered]
            self._sent += [n for n in numbered if n not in self._sent]
            self._sent.sort(key=lambda n: n.seq)
            self.receipts += [(n.agent, n.key, receipt) for n in numbered]

    def send_in_order(self, life: Life) -> None:
        chain = self._chain
        if chain.pending is None:
            chain.pending = Numbered(chain.next, *self.event(life.fleet))
            chain.next += 1
        seq, agent, key, event = chain.pending
        if agent is not life.fleet.agents[agent.__name__]:
            # From before an upgrade: what became of it stays unknown, and another source goes on.
            self._chain = Chain(f"{chain.source}-again")
            return
        receipt = self._noted(
            life,
            chain.source,
            [chain.pending],
            lambda: life.live.send(
                agent,
                key,
                event,
                source=chain.source,
                seq=seq,
                previous=chain.last.get(key, 0),
                event_time=self._universe.now,
                timeout=SEND_SECONDS,
            ),
        )
        if receipt is not None:
            chain.last[key], chain.pending = seq, None
            self.receipts.append((agent, key, receipt))

    def _noted(
        self, life: Life, source: str, numbered: list[Numbered], send: Callable[[], Receipt]
    ) -> Receipt | None:
        """Send, and note what came of it, whatever that is."""
        began = self._universe.now
        outcome: Outcome = "unknown"
        receipt: Receipt | None = None
        try:
            receipt = send()
            outcome = "acknowledged"
        except TryAgain:
            pass  # it may have happened: it is sent again under its numbers
        except HoldfastError:
            outcome = "refused"
            raise
        finally:
            ended = self._universe.now
            self._notes.sends += [
                Send(
                    life.name, source, n.seq, n.agent.__name__, n.key, n.event,
                    began, ended, outcome, receipt,
                )
                for n in numbered
            ]  # fmt: skip
            first, last = numbered[0].seq, numbered[-1].seq
            numbers = str(first) if first == last else f"{first} to {last}"
            self._universe.note(life.name, f"sends {source} {numbers}: {outcome}")
        return receipt


def _run_of(numbered: list[Numbered]) -> list[Numbered]:
    """The first ones, as long as their numbers follow each other: one send numbers on."""
    first = numbered[0].seq
    return [n for i, n in enumerate(numbered[:EVENTS_PER_SEND]) if n.seq == first + i]
