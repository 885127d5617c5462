"""A fleet whose agents call whatever they are told to, and a rig to run its calls by hand."""

from collections.abc import Callable, Iterable

import msgspec

from holdfast import Agent, CallFailed, Context, Event, Fleet, Live, on
from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import Engine
from holdfast.runtime.calling.caller import Caller
from holdfast.runtime.calling.port import Attempt, Outcome
from holdfast.runtime.worker import Worker
from tests.runtime.calling import functions
from tests.runtime.calling.functions import Other, Point, Told

FUNCTIONS: dict[str, Callable[..., object]] = {
    name: value
    for name, value in vars(functions).items()
    if callable(value) and getattr(value, "__module__", "") == functions.__name__
    if not isinstance(value, type)
}


class Please(Event):
    """Call `function` with these arguments."""

    function: str
    arguments: list[str | float | int] = []
    timeout: float = 30.0
    retries: int = 0
    backoff: float = 0.01
    times: int = 1


class Client(Agent):
    told: list[str] = []
    failures: list[tuple[str, str, str, int]] = []

    @on
    def asked(self, event: Please, ctx: Context) -> None:
        for _ in range(event.times):
            ctx.call(
                FUNCTIONS[event.function],
                *event.arguments,
                reply=Told,
                timeout=event.timeout,
                retries=event.retries,
                backoff=event.backoff,
            )

    @on
    def heard(self, event: Told, ctx: Context) -> None:
        self.told.append(event.text)

    @on
    def missed(self, event: CallFailed, ctx: Context) -> None:
        self.failures.append((event.function, event.reason, event.error, event.attempts))


fleet = Fleet("clients", agents=[Client], events=[Other, Point], calls=list(FUNCTIONS.values()))


def told(text: str) -> bytes:
    return msgspec.msgpack.encode(Told(text))


class Hands:
    """An executor whose work is done by the test."""

    def __init__(self) -> None:
        self.running: dict[int, Attempt] = {}
        self.killed: list[int] = []
        self._begun: list[int] = []
        self._outcomes: list[Outcome] = []

    def start(self, attempt: Attempt) -> None:
        self.running[attempt.serial] = attempt
        self._begun.append(attempt.serial)

    def begun(self) -> list[int]:
        begun, self._begun = self._begun, []
        return begun

    def finished(self) -> list[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def kill(self, serial: int) -> None:
        del self.running[serial]
        self.killed.append(serial)

    def end(self, serial: int, reason: str = "", *, again: bool = True) -> None:
        attempt = self.running.pop(serial)
        body = b"" if reason else told(attempt.call)
        self.tell(Outcome(serial, reason, reason and "on purpose", body, again))

    def tell(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)

    def end_all(self, reason: str = "") -> int:
        serials = list(self.running)
        for serial in serials:
            self.end(serial, reason)
        return len(serials)

    def names(self) -> list[str]:
        return sorted(attempt.name for attempt in self.running.values())


class Rig:
    """Worker, caller and time, all turned by hand, on an engine in memory or any other."""

    def __init__(self, engine: Engine | None = None, partitions: int = 1) -> None:
        self.now = 1000.0
        self.engine = engine or MemoryEngine("clients", partitions)
        self.hands, self.async_hands = Hands(), Hands()
        self.worker = Worker(fleet, self.engine, self.engine.catalog.layout.numbers)
        self.caller = self.new_caller()
        self.live = Live(fleet, self.engine)

    def new_caller(self) -> Caller:
        hands = {"process": self.hands, "async": self.async_hands}
        return Caller(fleet, self.engine, hands, lambda: self.now)

    def please(self, key: str, function: str, *arguments: str | float | int, **how: float) -> None:
        self.live.send(Client, key, Please(function, list(arguments), **how))  # type: ignore[arg-type]
        self.fold()

    def fold(self) -> None:
        while self.worker.tick():
            pass

    def turn(self, seconds: float = 0.0) -> None:
        """Time passes; then everybody does what there is to do."""
        self.now += seconds
        self.caller.nudge()
        for _ in range(1000):
            moved = self.caller.tick()
            self.fold()
            if not moved:
                return
        raise AssertionError("it does not come to rest")

    def client(self, key: str = "a") -> Client:
        state = self.live.state(Client, key)
        assert state is not None
        return state

    def reasons(self, key: str = "a") -> list[tuple[str, int]]:
        return [(reason, attempts) for _, reason, _, attempts in self.client(key).failures]

    def open_calls(self) -> int:
        numbers: Iterable[int] = self.engine.catalog.layout.numbers
        return sum(len(self.engine.view(n).calls(0, 1_000_000)) for n in numbers)
