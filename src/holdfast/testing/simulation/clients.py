"""Clients of a run: devices, readers and operators, each a process with a real `Live` handle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import AskFailed, HoldfastError, TryAgain
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.runtime.live import Live
from holdfast.runtime.sending import Receipt
from holdfast.runtime.world import World
from holdfast.testing.generating import generate_event, keys_of
from holdfast.testing.simulation.engine import SimulatedEngine
from holdfast.testing.simulation.evidence import Ask, Look, Outcome, Page, Read, Send
from holdfast.testing.simulation.faults import Fault
from holdfast.testing.simulation.processes import SimulatedProcess
from holdfast.testing.simulation.store import Lost
from holdfast.testing.simulation.universe import stream

if TYPE_CHECKING:
    from holdfast.testing.simulation.machine import Machine

SEND_SECONDS = 2.0
ASK_SECONDS = 3.0
EVENTS_PER_SEND = 12
KEYS_PER_AGENT = 3


class Numbered(NamedTuple):
    """An event a device has numbered. It keeps it until it is acknowledged."""

    seq: int
    agent: type[Agent]
    key: str
    event: Event


@dataclass
class Notes:
    """What the clients of a run have done and seen."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)


class ClientProcess(SimulatedProcess):
    """One life of a client. What it must not forget is in its `Client`."""

    patient = True
    crashes = False

    def rest(self, seconds: float) -> None:
        super().rest(seconds)
        if self.machine.faults.strikes(Fault.CLIENT_CRASH):
            self.end("crashes in the middle of a call")
        self.check()


class Client:
    def __init__(self, machine: Machine, number: int, notes: Notes) -> None:
        self._machine = machine
        self._universe = machine.universe
        self.name = f"client {number}"
        self._source = f"device-{number}"
        self._notes = notes
        self._random = stream(machine.universe.seed, self.name)
        self._lives = 0
        self._process: ClientProcess | None = None
        self._live: Live | None = None
        self._next = 1
        self._unsent: list[Numbered] = []  # numbered, not acknowledged
        self._sent: list[Numbered] = []
        self._receipts: list[tuple[type[Agent], str, Receipt]] = []
        self._cursor: str | None = None
        self._busy = False

    # Lives.

    def _handle(self) -> Live:
        """A handle of a living process; a client that ended starts again and remembers."""
        if self._process is not None and self._process.alive and self._live is not None:
            return self._live
        self._lives += 1
        name = self.name if self._lives == 1 else f"{self.name}, life {self._lives}"
        program = self._machine.program if not self._unsent else self._program
        self._program = program
        process = self._process = ClientProcess(self._machine, name, program)
        self._machine.clients = [c for c in self._machine.clients if c.alive] + [process]
        engine = SimulatedEngine(
            self._universe, self._machine.faults, self._machine.store, process
        )
        world = World(lambda: self._universe.now, process.rest, lambda: name.replace(" ", "-"))
        self._fleet = self._machine.programs[program]
        self._live = Live(self._fleet, engine, None, world)
        return self._live

    def act(self) -> None:
        """One thing a client does. Called by nobody while it is at another."""
        if self._busy:
            return
        self._busy = True
        try:
            self._choose()(self._handle())
        except Lost:
            pass  # this life is over; the next one begins with the next act
        except HoldfastError as error:
            self._universe.note(self.name, f"is told: {error}")
        finally:
            self._busy = False

    def _choose(self) -> Callable[[Live], None]:
        if self._unsent and self._random.random() < 0.6:
            return self._send_again
        if self._machine.faults.strikes(Fault.RESEND) and self._sent:
            return self._resend
        drawn = self._random.random()
        for share, deed in (
            (0.55, self._send_new),
            (0.67, self._read_after),
            (0.75, self._read),
            (0.82, self._look),
            (0.88, self._turn_page),
            (0.94, self._ask),
            (1.0, self._operate),
        ):
            if drawn < share:
                return deed
        return self._look

    # Sending.

    def _send_new(self, live: Live) -> None:
        count = 1 if self._random.random() < 0.5 else self._random.randint(2, EVENTS_PER_SEND)
        for _ in range(count):
            agent, key, event = self._event()
            self._unsent.append(Numbered(self._next, agent, key, event))
            self._next += 1
        self._send(live, self._unsent[-count:])

    def _event(self) -> tuple[type[Agent], str, Event]:
        agents = [a for a in self._fleet.agents.values() if a.__holdfast__.routes]
        agent = self._random.choice(agents)
        events = list(agent.__holdfast__.routes)
        words = [key for each in agents for key in keys_of(each, KEYS_PER_AGENT)]
        event = generate_event(self._random.choice(events), self._random, words=words)
        return agent, self._key(agent), event

    def _key(self, agent: type[Agent]) -> str:
        return self._random.choice(keys_of(agent, KEYS_PER_AGENT))

    def _send_again(self, live: Live) -> None:
        """What is not acknowledged, in order of its numbers, as far as one send takes it."""
        first = self._unsent[0].seq
        run = [n for i, n in enumerate(self._unsent[:EVENTS_PER_SEND]) if n.seq == first + i]
        self._send(live, run)

    def _resend(self, live: Live) -> None:
        known = set(self._fleet.agents.values())
        sent = [n for n in self._sent if n.agent in known]  # an upgrade has other classes
        if sent:
            start = self._random.randint(0, len(sent) - 1)
            some = sent[start : start + EVENTS_PER_SEND]
            self._send(live, [n for i, n in enumerate(some) if n.seq == some[0].seq + i])

    def _send(self, live: Live, numbered: list[Numbered]) -> None:
        began = self._universe.now
        rows = [(n.agent, n.key, n.event) for n in numbered]
        outcome: Outcome = "unknown"
        receipt: Receipt | None = None
        try:
            receipt = live.send_many(
                rows, source=self._source, first_seq=numbered[0].seq, timeout=SEND_SECONDS
            )
            outcome = "acknowledged"
        except TryAgain:
            pass  # it may have happened: it is sent again under its numbers
        except HoldfastError:
            outcome = "refused"
            raise
        finally:
            self._note_sends(numbered, began, outcome, receipt)
        if receipt is not None:
            self._unsent = [n for n in self._unsent if n not in numbered]
            self._sent += [n for n in numbered if n not in self._sent]
            self._sent.sort(key=lambda n: n.seq)
            for n in numbered:
                self._receipts.append((n.agent, n.key, receipt))

    def _note_sends(
        self, numbered: list[Numbered], began: float, outcome: Outcome, receipt: Receipt | None
    ) -> None:
        process = self._process
        assert process is not None
        for n in numbered:
            self._notes.sends.append(
                Send(
                    process.author.process,
                    self._source,
                    n.seq,
                    n.agent.__name__,
                    n.key,
                    n.event,
                    began,
                    self._universe.now,
                    outcome,
                    receipt,
                )
            )
        last = numbered[-1].seq
        what = f"{self._source} {numbered[0].seq}" + (f" to {last}" if len(numbered) > 1 else "")
        self._universe.note(process.author.process, f"sends {what}: {outcome}")

    # Reading.

    def _read_after(self, live: Live) -> None:
        if self._receipts:
            agent, key, receipt = self._random.choice(self._receipts[-10:])
            self._read_state(live, agent, key, receipt)

    def _read(self, live: Live) -> None:
        agent = self._random.choice(list(self._fleet.agents.values()))
        self._read_state(live, agent, self._key(agent), None)

    def _read_state(
        self, live: Live, agent: type[Agent], key: str, after: Receipt | None
    ) -> None:
        agent = self._fleet.agents[agent.__name__]
        began = self._universe.now
        state = live.state(agent, key, after=after, timeout=SEND_SECONDS)
        name = self._author()
        ended = self._universe.now
        self._notes.reads.append(Read(name, agent.__name__, key, after, began, ended, state))

    def _author(self) -> str:
        assert self._process is not None
        return self._process.author.process

    def _look(self, live: Live) -> None:
        live.positions()
        for number in self._machine.layout.numbers:
            head = live._engine.view(number).head()
            self._notes.looks.append(Look(self._author(), number, self._universe.now, head))

    def _turn_page(self, live: Live, most: int = 0) -> None:
        page = live.actions(after=self._cursor, most=most or self._random.randint(1, 20))
        self._cursor = page.cursor
        ids = tuple(action.id for action in page)
        self._notes.pages.append(Page(self.name, self._universe.now, ids))

    def _ask(self, live: Live) -> None:
        agent, key, event = self._event()
        began = self._universe.now
        reply: Event | None = None
        error: str | None = "it never came back"
        try:
            reply = live.ask(agent, key, event, timeout=ASK_SECONDS)
            error = None
        except (AskFailed, TryAgain) as raised:
            error = str(raised)
        finally:
            asked = Ask(
                self._author(), agent.__name__, key, event, began, self._universe.now, reply, error
            )
            self._notes.asks.append(asked)
            self._universe.note(self._author(), f"asks {agent.__name__}/{key}: {error or 'reply'}")

    # Operating.

    def _operate(self, live: Live) -> None:
        agent = self._random.choice(list(self._fleet.agents.values()))
        key = self._key(agent)
        drawn = self._random.random()
        if drawn < 0.25:
            live.pause(agent, key, "simulated")
            self._universe.note(self._author(), f"pauses {agent.__name__}/{key}")
        elif drawn < 0.6:
            for paused in live.paused():
                live.resume(self._fleet.agents[paused.agent], paused.key)
                self._universe.note(self._author(), f"resumes {paused.agent}/{paused.key}")
        elif drawn < 0.85:
            letters = [letter for letter in live.dead_letters() if not letter.redriven]
            if letters:
                letter = self._random.choice(letters)
                live.redrive(letter.id)
                self._universe.note(self._author(), f"redrives letter {letter.id}")
        else:
            live.history(agent, key)

    # After the faults.

    def finish(self) -> bool:
        """Send what is left, read what is there. True when nothing is left to send."""
        for _ in range(200):
            if not self._unsent:
                break
            self._do(self._send_again)
        return not self._unsent

    def read_to_the_end(self) -> None:
        for agent, key, receipt in self._receipts[-5:]:
            self._do(lambda live, a=agent, k=key, r=receipt: self._read_state(live, a, k, r))
        self._do(self._look)
        turned = True
        while turned:
            before = self._cursor
            self._do(lambda live: self._turn_page(live, 10_000))
            turned = self._cursor != before

    def _do(self, deed: Callable[[Live], None]) -> None:
        try:
            deed(self._handle())
        except Lost:
            pass
        except HoldfastError as error:
            self._universe.note(self.name, f"is told: {error}")
