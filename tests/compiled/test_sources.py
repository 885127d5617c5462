"""Goal: a kernel does what the source says, however it stands in its file: texts of several lines,
also from the first column on, several lambdas in a line, names with other letters than ASCII's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.model.marks import Width
from holdfast.runtime.kernels import kernels_of
from tests.compiled.twins import Twins


class Pair(Event):
    a: int
    b: int


class Other(Event):
    x: float = 0.0


class Named(Action):
    id: Annotated[str, Width(64)]


# fmt: off
RISES, FALLS = (lambda self, event: event.a < event.b), (lambda self, event: event.b < event.a)
# fmt: on


def bounds(low: int, high: int) -> tuple[Callable[..., bool], Callable[..., bool]]:
    # fmt: off
    return (lambda self, event: event.a == low), (lambda self, event: event.a == high)
    # fmt: on


LOW, HIGH = bounds(5, 50)


class Gerät(Agent, compiled=True):  # noqa: PLC2401 - that is the point
    up: int = 0
    down: int = 0
    same: int = 0
    text: Annotated[str, Width(40)] = ""
    seen: bool = False

    @on(when=LOW)
    def low(self, event: Pair, ctx: Context) -> None:
        self.same += 1
        ctx.emit(Named(ctx.new_id()))

    @on(when=HIGH)
    def high(self, event: Pair, ctx: Context) -> None:
        self.same += 100

    @on(when=RISES)
    def rises(self, event: Pair, ctx: Context) -> None:
        self.up += 1
        self.text = """one
            two
three"""

    @on(when=FALLS)
    def falls(self, event: Pair, ctx: Context) -> None:
        self.down += 1
        self.text = """one
            two"""

    @on
    def rest(self, event: Pair | Other, ctx: Context) -> None:
        self.seen = isinstance(event, Pair) and event.a in (0, 10 // event.a)


FLEET = Fleet("quellen", agents=[Gerät])


def test_a_kernel_does_what_the_source_says() -> None:
    twins = Twins(FLEET, kernels_of(FLEET))
    pairs = [(1, 2), (2, 1), (5, 1), (50, 1), (50, 60), (3, 3), (0, 0), (10, 10), (1, 1)]
    events: list[Event] = [*(Pair(a, b) for a, b in pairs), Other()]
    for at, event in enumerate(events):
        twins.inbox.put([(Gerät, f"g-{at % 2}", event)], 10.0 + at)
    twins.step(len(events))
    assert twins.compiled.states() == twins.plain.states()
    letters = [each for commit in twins.plain.commits for each in commit.letters]
    assert len(letters) == 1  # 10 // 0, though 0 is in front of it
