"""Random runs of the yard: the real worker and real handles in made-up time, with all they leave.

Workers crash inside commits and deliveries, stopped ones come back as zombies, clocks are wrong,
acknowledgements get lost, classes are upgraded and partitions rescaled, all by one seed. Nobody
runs the functions that agents call: replies are made up here, some of them twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

from holdfast.engine.port import Parcel
from holdfast.errors import AskFailed, HoldfastError, OutOfOrder, TryAgain
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed, digest_of
from holdfast.model.event import Event
from holdfast.model.rng import Random
from holdfast.runtime.live import Live
from holdfast.runtime.schemas import agree
from holdfast.runtime.sending import Receipt
from holdfast.runtime.worker import Worker
from holdfast.runtime.world import World
from holdfast.stepping.commit import Call
from holdfast.stepping.inputs import reply_frame
from holdfast.testing.generating import generate_event
from holdfast.testing.simulation.evidence import (
    Ask,
    Attempted,
    Command,
    Evidence,
    Look,
    Outcome,
    Page,
    Read,
    Send,
)
from tests.simulation import fleet_v1, fleet_v2
from tests.simulation.recorded import Crash, RecordedEngine, Time

RELEASES: list[ModuleType] = [fleet_v1, fleet_v2]


class Client:
    """A handle of one release, and the numbers of its source."""

    def __init__(self, run: Run, name: str, program: int) -> None:
        self.name = name
        self.release = RELEASES[program]
        self.live = run.open(self.release)
        self.next = 1
        self.cursor = ""
        self.receipts: list[Receipt] = []
        self.sent: list[tuple[int, list[fleet_v1.Row]]] = []


class Run:
    """`steps` random steps, then quiet. `trouble` is how likely a worker ends at a write."""

    def __init__(self, seed: int, partitions: int = 2, trouble: float = 0.03) -> None:
        self.draw = random.Random(seed)
        self.time = Time()
        self.trouble = trouble
        self.engine = RecordedEngine(self.time, self.draw, partitions)
        self.program = 0
        self._names = 0
        self.answers_all = False
        self.evidence = Evidence([r.fleet for r in RELEASES], {}, [self.engine.written()])
        self.engine.condemned = self.evidence.condemned
        self.zombies: list[tuple[Worker, str, int]] = []
        self.worker = self._start()
        self.clients = [Client(self, "gcs", 0), Client(self, "wms", 0)]

    # Workers.

    def _start(self) -> Worker:
        self._names += 1
        self.process = f"worker {self._names}"
        self.ahead = self.draw.choice([0.0, 0.0, 0.4, -0.6])
        ahead = self.ahead
        self.engine.release()
        self.engine.grants_alone = self.draw.random() < 0.1
        self.engine.grants_condemned = self.draw.random() < 0.02
        return Worker(
            RELEASES[self.program].fleet,
            self.engine,
            self.engine.catalog.layout.numbers,
            lambda: self.time.clock(ahead),
        )

    def tick(self) -> bool:
        self.engine.process, self.engine.program = self.process, self.program
        self.engine.trouble = self.trouble
        for partition in self.worker.partitions.values():
            if self.draw.random() < 0.5:
                partition._events_max = self.draw.randint(1, 6)  # cuts inside frames
        try:
            return self.worker.tick()
        except Crash:
            self.worker = self._start()
            return True
        finally:
            self.engine.trouble = 0.0

    def restart(self) -> None:
        """The old worker is only stopped: it may come back and try to go on."""
        self.zombies.append((self.worker, self.process, self.program))
        self.worker = self._start()

    def zombie(self) -> None:
        if self.zombies:
            worker, self.engine.process, self.engine.program = self.draw.choice(self.zombies)
            granted, self.engine._granted = self.engine._granted, set(worker.partitions)
            worker._wanted = []
            worker.tick()
            self.engine._granted = granted

    def upgrade(self) -> None:
        self.program = 1
        self.zombies = []
        self.worker = self._start()
        self.clients.append(Client(self, "gcs2", 1))

    def rescale(self, partitions: int) -> None:
        self.settle()
        self.zombies = []
        self.engine.written()
        self.engine = self.engine.rescaled(partitions)
        self.engine.condemned = self.evidence.condemned
        self.evidence.generations.append(self.engine.written())
        self.worker = self._start()
        for client in self.clients:
            client.live = self.open(client.release)
            client.cursor = ""

    # Clients.

    def open(self, release: ModuleType) -> Live:
        def sleep(seconds: float) -> None:
            self.time.true += max(seconds, 0.01)
            self.tick()

        def fresh() -> str:
            self._names += 1
            return f"handle-{self._names}"

        world = World(lambda: self.time.true, sleep, fresh)
        return Live(release.fleet, self.engine, None, world)

    def _numbered(self, receipt: Receipt) -> Receipt:
        """As it is recorded, in numbers that no other generation has."""
        first = self.engine.first
        return receipt._replace(positions=tuple((p + first, n) for p, n in receipt.positions))

    def _waited_for(self, receipt: Receipt) -> Receipt:
        """As the engine of now knows it. What came before a rescale was drained by it."""
        first = self.engine.first
        positions = tuple((p - first, n) for p, n in receipt.positions if p >= first)
        return receipt._replace(positions=positions)

    def send(self, client: Client) -> None:
        count = self.draw.choice([1, 1, 1, 2, 5])
        rows = [client.release.stimulus(self.draw) for _ in range(count)]
        client.sent.append((client.next, rows))
        client.next += count
        self._attempt(client, *client.sent[-1])

    def send_last(self, client: Client) -> None:
        """What nobody takes: nothing follows from it."""
        rows: list[fleet_v1.Row] = [(client.release.Depot, "d-1", client.release.Level(1.0))]
        client.sent.append((client.next, rows))
        client.next += 1
        self._attempt(client, *client.sent[-1])

    def resend(self, client: Client) -> None:
        if client.sent:
            self._attempt(client, *self.draw.choice(client.sent[-5:]))

    def refused(self, client: Client) -> None:
        """A gap in an ordered source."""
        row, began = client.release.stimulus(self.draw), self.time.true
        self._names += 1
        source = f"ordered-{self._names}"
        try:
            client.live.send(*row, source=source, seq=7, previous=6)
        except OutOfOrder:
            self._record(client, source, 7, [row], began, "refused", None)

    def _attempt(self, client: Client, first: int, rows: list[fleet_v1.Row]) -> None:
        began, receipt = self.time.true, None
        outcome: Outcome = "acknowledged"
        self.engine.loses_acknowledgement = self.draw.random() < 0.1
        try:
            receipt = client.live.send_many(
                rows, source=client.name, first_seq=first, timeout=self.draw.choice([0.0, 1.0])
            )
        except TryAgain:
            outcome = "unknown"
        self.engine.loses_acknowledgement = False
        if receipt is not None:
            receipt = self._numbered(receipt)
            client.receipts.append(receipt)
        self._record(client, client.name, first, rows, began, outcome, receipt)

    def _record(
        self,
        client: Client,
        source: str,
        first: int,
        rows: list[fleet_v1.Row],
        began: float,
        outcome: Outcome,
        receipt: Receipt | None,
    ) -> None:
        ended = self.time.true
        for seq, (agent, key, event) in enumerate(rows, start=first):
            what = (source, seq, agent.__name__, key, event)
            self.evidence.sends.append(Send(client.name, *what, began, ended, outcome, receipt))

    def ask(self, client: Client) -> None:
        agent, key, event = client.release.question(self.draw)
        began, reply, error, failed = self.time.true, None, None, False
        try:
            reply = client.live.ask(agent, key, event, timeout=self.draw.choice([0.05, 2.0]))
        except HoldfastError as failure:
            error, failed = str(failure), isinstance(failure, AskFailed)
        self.evidence.asks.append(
            Ask(
                client.name,
                agent.__name__,
                key,
                event,
                began,
                self.time.true,
                reply,
                error,
                failed,
            )
        )

    def read(self, client: Client) -> None:
        agent, key, _ = client.release.stimulus(self.draw)
        after = None
        if client.receipts and self.draw.random() < 0.5:
            after = self.draw.choice(client.receipts[-3:])
        began = self.time.true
        state: Agent | None
        try:
            waited = None if after is None else self._waited_for(after)
            state = client.live.state(agent, key, after=waited, timeout=2.0)
        except HoldfastError:
            return  # it took too long, or newer classes have folded it
        name = agent.__name__
        self.evidence.reads.append(
            Read(client.name, name, key, after, began, self.time.true, state)
        )

    def look(self, client: Client) -> None:
        for number in range(len(self.engine.logs)):
            head = self.engine.view(number).head()
            at = self.time.true
            self.evidence.looks.append(Look(client.name, self.engine.first + number, at, head))
        try:
            page = client.live.actions(after=client.cursor, most=self.draw.randint(1, 20))
        except HoldfastError:
            return  # newer classes than the client's
        client.cursor = page.cursor
        ids = tuple(issued.id for issued in page)
        if ids or not self.engine.first:  # an empty one tells nothing of the engines before
            self.evidence.pages.append(Page(client.name, self.time.true, ids))

    def operate(self, client: Client) -> None:
        live, release = client.live, client.release
        number = self.draw.randint(1, 4)
        scale = release.Scale, f"w-{number}"
        other = self.draw.choice([(release.Robot, f"r-{number}"), (release.Visitor, f"v-{number}")])
        orders: list[tuple[Callable[[], Receipt], type[Agent], str, list[object]]] = [
            (lambda: live.resume(*scale), *scale, ["resume"]),
            (lambda: live.resume(*scale), *scale, ["resume"]),
            (lambda: live.pause(*scale, reason="tea"), *scale, ["pause", "tea"]),
            (lambda: live.pause(*other, reason="tea"), *other, ["pause", "tea"]),
            (lambda: live.resume(*other), *other, ["resume"]),
        ]
        letters = live._reading.dead_letters() if client.release is RELEASES[self.program] else []
        if letters:
            letter = self.draw.choice(letters)
            agent = client.release.fleet.agents[letter.agent]
            command: list[object] = ["redrive", int(letter.id.partition(".")[2])]
            redrive = (lambda: live.redrive(letter.id)), agent, letter.key, command
            orders += [redrive] * min(3, len(letters))
        give, agent, key, command = self.draw.choice(orders)
        for _ in range(self.draw.choice([1, 1, 2])):
            began = self.time.true
            what = client.name, agent.__name__, key, command, began
            receipt = self._numbered(give())
            self.evidence.commands.append(Command(*what, self.time.true, "acknowledged", receipt))

    # Replies.

    def answer(self, most: int) -> bool:
        """To calls that are open: a reply or a failure, at times twice. False if there are none."""
        found = False
        for number in self.engine.catalog.layout.numbers:
            calls = self.engine.view(number).calls(0, most)
            for call in calls:
                self._reply(number, call)
            found = found or bool(calls)
        return found

    def _reply(self, number: int, call: Call) -> None:
        fleet = RELEASES[self.program].fleet
        codebook, _ = agree(fleet, self.engine.catalog)
        digest = digest_of(call.function, call.arguments)
        for _ in range(self.draw.choice([1, 1, 2])):
            event: Event = CallFailed(call.id, call.function, "died", "made up", call.retries + 1)
            if self.draw.random() < 0.8:
                event = generate_event(fleet.events[call.reply], Random(self.draw.getrandbits(63)))
            what = (call.id, call.function, call.arguments, self.time.true, event)
            self.evidence.attempts.append(Attempted(*what))
            place = (call.agent, call.key, call.id, call.function)
            frame = reply_frame(*place, digest, event, codebook)
            parcel = Parcel(frame=frame, encoded=frame.encode(), external=False)
            self.engine.append(number, [parcel])

    # The run.

    def step(self) -> None:
        self.time.true += self.draw.choice([0.0, 0.0, 0.001, 0.05, 0.3, 0.3, 1.0, 4.0])
        client = self.draw.choice(self.clients)
        whats: list[tuple[int, Callable[[], object]]] = [
            (30, lambda: self.send(client)),
            (4, lambda: self.resend(client)),
            (1, lambda: self.refused(client)),
            (4, lambda: self.ask(client)),
            (8, lambda: self.read(client)),
            (5, lambda: self.look(client)),
            (6, lambda: self.operate(client)),
            (30, self.tick),
            (8, lambda: self.answer(3)),
            (1, self.restart),
            (1, self.zombie),
        ]
        weights = [weight for weight, _ in whats]
        self.draw.choices([what for _, what in whats], weights)[0]()

    def settle(self) -> None:
        for _ in range(2000):
            moved = self.tick()
            if not moved and self.engine.quiet_at(self.time.true):
                if not self.answers_all or not self.answer(1_000):
                    return
                continue
            if not moved:
                self.time.true += 0.3
        raise AssertionError("this run does not settle")

    def cut_off(self) -> Evidence:
        """All there is so far, whatever still waits."""
        self.evidence.schemas = self.engine.catalog.schemas()
        self.engine.written()
        self.evidence.ended = self.time.true
        return self.evidence

    def finished(self) -> Evidence:
        self.trouble = 0.0
        self.answers_all = True
        self.settle()
        self.evidence.quiet = True
        self.evidence.clock_at_quiet = self.time.true + self.ahead
        return self.cut_off()


def random_run(seed: int, steps: int = 120) -> Evidence:
    """With an upgrade in half of the runs, and a rescale in a third."""
    draw = random.Random(f"{seed} plan")
    run = Run(seed, partitions=draw.choice([1, 2, 3]), trouble=draw.choice([0.0, 0.03, 0.1]))
    upgrade = draw.randint(0, steps) if draw.random() < 0.5 else -1
    rescale = draw.randint(0, steps) if draw.random() < 0.33 else -1
    for step in range(steps):
        if step == upgrade:
            run.upgrade()
        if step == rescale:
            run.rescale(draw.choice([1, 2, 4]))
        run.step()
    return run.finished()


def rich_run(seed: int = 18) -> Evidence:
    """One run that has everything: an upgrade, then a rescale, then more of the same."""
    run = Run(seed, partitions=2, trouble=0.02)
    for step in range(300):
        if step == 110:
            run.upgrade()
        if step == 190:
            run.rescale(3)
        run.step()
    run.finished()
    run.send_last(run.clients[-1])
    return run.finished()
