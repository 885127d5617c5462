"""Clients of a run: each a process with a real `Live` handle that sends, reads, asks and operates.

A client that ends starts again. What it must not forget is in its device and its cursor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from holdfast.errors import AskFailed, HoldfastError, TryAgain, UsageError
from holdfast.model.agent import Agent
from holdfast.model.event import Event
from holdfast.runtime.live import Live
from holdfast.runtime.reading import ActionPage
from holdfast.runtime.sending import Receipt
from holdfast.runtime.world import World
from holdfast.testing.simulation.devices import SEND_SECONDS, Device, Life
from holdfast.testing.simulation.engine import SimulatedEngine
from holdfast.testing.simulation.evidence import (
    Ask,
    Command,
    Evidence,
    Listing,
    Look,
    Outcome,
    Page,
    Read,
)
from holdfast.testing.simulation.faults import Fault
from holdfast.testing.simulation.plainfates import awaits
from holdfast.testing.simulation.processes import SimulatedProcess
from holdfast.testing.simulation.store import Lost
from holdfast.testing.simulation.universe import stream

if TYPE_CHECKING:
    from holdfast.testing.simulation.machine import Machine

ASK_SECONDS = 3.0
ATTEMPTS_MAX = 200  # to send what is left, after the faults
WHOLE_PAGE = 10_000


class ClientProcess(SimulatedProcess):
    patient = True
    crashes = False

    def rest(self, seconds: float) -> None:
        super().rest(seconds)
        if self.machine.faults.strikes(Fault.CLIENT_CRASH):
            self.end("crashes in the middle of a call")
        self.check()


class Client:
    def __init__(self, machine: Machine, number: int, notes: Evidence) -> None:
        self._machine = machine
        self._universe = machine.universe
        self._name = f"client {number}"
        self._notes = notes
        self._random = stream(machine.universe.seed, self._name)
        self._device = Device(self._universe, self._random, notes, number)
        self._lives = 0
        self._program = 0
        self._process: ClientProcess | None = None
        self._last: Life | None = None
        self._cursor: str | None = None
        self._busy = False

    # Lives.

    def _life(self) -> Life:
        """The life that goes on, or a new one. What is not sent yet is of the old classes."""
        if self._last is not None and self._process is not None and self._process.alive:
            return self._last
        self._lives += 1
        name = self._name if self._lives == 1 else f"{self._name}.{self._lives}"
        if not self._device.unsent:
            self._program = self._machine.program
        machine = self._machine
        process = self._process = ClientProcess(machine, name, self._program)
        machine.clients = [c for c in machine.clients if c.alive] + [process]
        engine = SimulatedEngine(self._universe, machine.faults, machine.store, process)
        world = World(lambda: self._universe.now, process.rest, lambda: name.replace(" ", "-"))
        fleet = machine.programs[self._program]
        self._last = Life(name, Live(fleet, engine, None, world), fleet)
        return self._last

    def act(self) -> None:
        """One thing a client does. Called by nobody while it is at another."""
        if not self._busy:
            self._do(self._choose())

    def _do(self, deed: Callable[[Life], None]) -> None:
        self._busy = True
        try:
            deed(self._life())
        except Lost:
            pass  # this life is over; the next one begins with the next deed
        except HoldfastError as error:
            self._universe.note(self._name, f"is told: {error}")
        finally:
            self._busy = False

    def _choose(self) -> Callable[[Life], None]:
        device = self._device
        fleet = self._machine.programs[self._program]
        if device.unsent and self._random.random() < 0.6:
            return device.send_again
        if device.resendable(fleet) and self._machine.faults.strikes(Fault.RESEND):
            return device.resend
        drawn = self._random.random()
        for share, deed in (
            (0.48, device.send_new),
            (0.55, device.send_in_order),
            (0.67, self._read_after),
            (0.73, self._read),
            (0.75, self._read_all),
            (0.81, self._look),
            (0.87, self._turn_page),
            (0.93, self._ask),
        ):
            if drawn < share:
                return deed
        return self._operate

    # Reading.

    def _read_after(self, life: Life) -> None:
        if self._device.receipts:
            self._read_state(life, *self._random.choice(self._device.receipts[-10:]))

    def _read(self, life: Life) -> None:
        agent = self._random.choice(list(life.fleet.agents.values()))
        self._read_state(life, agent, self._device.key(agent), None)

    def _read_state(self, life: Life, agent: type[Agent], key: str, after: Receipt | None) -> None:
        agent = life.fleet.agents[agent.__name__]
        began = self._universe.now
        state = life.live.state(agent, key, after=after, timeout=SEND_SECONDS)
        read = Read(life.name, agent.__name__, key, after, began, self._universe.now, state)
        self._notes.reads.append(read)

    def _read_all(self, life: Life) -> None:
        agent = self._random.choice(list(life.fleet.agents.values()))
        now = self._universe.now
        states = list(life.live.states(agent))
        for key, state in states:
            self._notes.reads.append(Read(life.name, agent.__name__, key, None, now, now, state))
        self._listed(life, "states", [key for key, _ in states], agent.__name__)
        life.live.settle(timeout=0.05)

    def _listed(
        self,
        life: Life,
        what: Literal["states", "paused", "letters"],
        names: list[str],
        agent: str = "",
    ) -> None:
        now, numbers = self._universe.now, tuple(self._machine.layout.numbers)
        self._notes.listings.append(Listing(life.name, now, what, agent, numbers, tuple(names)))

    def _look(self, life: Life) -> None:
        for number in self._machine.layout.numbers:
            head = life.live._engine.view(number).head()
            self._notes.looks.append(Look(life.name, number, self._universe.now, head))

    def _turn_page(self, life: Life, most: int = 0) -> None:
        page = life.live.actions(after=self._cursor, most=most or self._random.randint(1, 20))
        self._cursor = page.cursor
        ids = tuple(action.id for action in page)
        self._notes.pages.append(Page(self._name, self._universe.now, ids))
        reading_only = most > 0  # the run is over: nothing may be sent any more
        if not reading_only and any(map(awaits, life.fleet.agents.values())):
            self._settle(life, page)

    def _settle(self, life: Life, page: ActionPage) -> None:
        """Say of some what became of them, of some twice, and now and then stop the fleet.

        Which, their ids decide: runs of fleets that want to know nothing stay as they were.
        """
        for issued in page:
            drawn = zlib.crc32(issued.id.encode())
            words = {0: "acknowledge", 1: "fail", 2: "deliver acknowledge", 3: "fail acknowledge"}
            for verb in words.get(drawn % 6, "").split():
                said = (verb, issued.id, life.name, "simulated")
                give = partial(_said, life.live, *said)
                self._command(life, issued.agent, issued.key, list(said), give)
            if drawn % 9 == 4:
                stops = drawn // 9 % 2 == 0
                life.live._settling.ground(stops, "simulated", life.name, 1.0, lambda taken: None)

    def _ask(self, life: Life) -> None:
        agent, key, event = self._device.event(life.fleet)
        began = self._universe.now
        reply: Event | None = None
        error: str | None = "it never came back"
        failed = False
        try:
            reply = life.live.ask(agent, key, event, timeout=ASK_SECONDS)
            error = None
        except (AskFailed, TryAgain) as raised:
            error, failed = str(raised), isinstance(raised, AskFailed)
        finally:
            now, name = self._universe.now, agent.__name__
            ask = Ask(life.name, name, key, event, began, now, reply, error, failed)
            self._notes.asks.append(ask)
            self._universe.note(life.name, f"asks {name}/{key}: {error or 'it replies'}")

    # Operating.

    def _operate(self, life: Life) -> None:
        agent = self._random.choice(list(life.fleet.agents.values()))
        key = self._device.key(agent)
        drawn = self._random.random()
        if drawn < 0.25:
            command: list[object] = ["pause", "simulated"]
            pause = partial(life.live.pause, agent, key, "simulated")
            self._command(life, agent.__name__, key, command, pause)
        elif drawn < 0.6:
            found = life.live.paused()
            names = [f"{p.agent}/{p.key} holds {p.held}: {p.reason}" for p in found]
            self._listed(life, "paused", names)
            for paused in found:
                resume = partial(life.live.resume, life.fleet.agents[paused.agent], paused.key)
                self._command(life, paused.agent, paused.key, ["resume"], resume)
        elif drawn < 0.85:
            buried = life.live.dead_letters()
            names = [f"{each.id}{' redriven' if each.redriven else ''}" for each in buried]
            self._listed(life, "letters", names)
            letters = [letter for letter in buried if not letter.redriven]
            if letters:
                letter = self._random.choice(letters)
                command = ["redrive", int(letter.id.partition(".")[2])]
                redrive = partial(life.live.redrive, letter.id)
                self._command(life, letter.agent, letter.key, command, redrive)
        else:
            life.live.history(agent, key)

    def _command(
        self, life: Life, agent: str, key: str, command: list[object], give: Callable[[], Receipt]
    ) -> None:
        """Give a command, and note what came of it, whatever that is."""
        began = self._universe.now
        outcome: Outcome = "unknown"
        receipt: Receipt | None = None
        try:
            receipt = give()
            outcome = "acknowledged"
        except UsageError:
            outcome = "refused"
            raise
        finally:
            now = self._universe.now
            self._notes.commands.append(
                Command(life.name, agent, key, command, began, now, outcome, receipt)
            )
            words = " ".join(map(str, command))
            self._universe.note(life.name, f"says {words} to {agent}/{key}: {outcome}")

    # After the faults.

    def finish(self) -> bool:
        """Send what is left. True when nothing is left to send."""
        for _ in range(ATTEMPTS_MAX):
            if not self._device.unsent:
                break
            self._do(self._device.send_again)
        return not self._device.unsent

    def read_to_the_end(self) -> None:
        for agent, key, receipt in self._device.receipts[-5:]:
            self._do(partial(self._read_state, agent=agent, key=key, after=receipt))
        self._do(self._look)
        before: object = self
        while self._cursor != before:
            before = self._cursor
            self._do(lambda life: self._turn_page(life, WHOLE_PAGE))


def _said(live: Live, verb: str, id: str, by: str, why: str) -> Receipt:
    (receipt,) = live._settling.append(verb, [id], by, why, SEND_SECONDS)
    return receipt
