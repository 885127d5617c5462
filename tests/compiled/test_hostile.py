"""Goal: what an unkind user would write either is refused with its line, or behaves as interpreted:
effects inside expressions, NaN in its own list, timers without a name to speak of, huge constants,
classes with hooks that kernels would not call."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from holdfast import Action, Agent, Context, Event, Fleet, on
from holdfast.errors import DefinitionError
from holdfast.model.marks import Length, Width
from holdfast.runtime.kernels import kernels_of
from tests.compiled.twins import Twins

HUGE = "x" * 70_000  # more than the scratch memory of an event


class Poke(Event):
    what: int
    item: float = 0.0
    number: int = 0


class Made(Action):
    number: int
    other: int


class Odd(Agent, compiled=True):
    n: int = 3
    parts: Annotated[list[float], Length(4)] = []
    whole: Annotated[list[int], Length(4)] = []
    held: bool = False

    @on
    def poke(self, event: Poke, ctx: Context) -> None:
        what = event.what
        if what == 0:
            self.parts.append(event.item)
            self.held = event.item in self.parts
        elif what == 1:
            self.held = ctx.key == HUGE or ctx.key < HUGE
        elif what == 2:
            ctx.after(1.0, Poke(what=3), name="")
            ctx.after(1.0, Poke(what=3, number=1), name="ü 🛸")
        elif what == 3:
            self.held = ctx.cancel("") or ctx.cancel("ü 🛸")
        elif what == 4:
            self.n = self.n + self.bump(2) * self.n - self.bump(3)
            self.n += self.bump(5)
        elif what == 5:
            self.whole = [self.bump(1), self.n, self.bump(1)]
            self.whole[self.bump(1) % 3] += self.bump(7) + self.whole[0]
        elif what == 6:
            a, b = self.n, self.bump(4)
            a, b = b, a
            ctx.emit(Made(other=self.bump(a), number=self.bump(b) + self.n))
        elif what == 7:
            self.held = self.bump(1) > self.n > self.bump(2) or (
                self.bump(3) % 2 == 0 and self.n > 1
            )
        elif what == 8:
            while self.bump(1) % 7 != 0:
                if self.n > event.number and self.bump(1) % 5 == 0:
                    break
            else:
                self.held = not self.held
        elif what == 9:
            self.n = self.bump(1) if self.held else -self.bump(2)
            x = y = self.bump(1)
            self.whole = [x, y]
        else:
            self.n = min(self.whole) if self.whole else 10 // event.number

    def bump(self, by: int) -> int:
        """Changes what the expression around it has read."""
        self.n += by
        if self.n > 10**6:
            self.n = 3
        return self.n


FLEET = Fleet("odd", agents=[Odd])


def test_effects_inside_expressions() -> None:
    twins = Twins(FLEET, kernels_of(FLEET))
    nan = float("nan")
    pokes = [Poke(what, item, n) for n in (0, 1, 40) for what in range(11) for item in (nan, -0.0)]
    for at, each in enumerate(pokes):
        twins.inbox.put([(Odd, f"o-{at % 3}", each), (Odd, "o-9", each)], 10.0 + at * 0.3)
    while waiting := len(twins.waiting()):
        twins.step(min(waiting, 5))
    twins.step(0, 100.0)
    assert twins.compiled.states() == twins.plain.states()
    assert len(twins.plain.script()) > 5


# Refused, each at its class.


class Clamped(Action):
    to: float

    def __post_init__(self) -> None:
        if self.to < 0.0:
            raise ValueError("below the ground")


class Warped(Event):
    x: float = 0.0

    def __getattribute__(self, name: str) -> object:
        return 1.0 if name == "x" else super().__getattribute__(name)


def test_hooks_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Clamped has __post_init__, .* leave it out"):

        class Emits(Agent, compiled=True):
            @on
            def poke(self, event: Poke, ctx: Context) -> None:
                ctx.emit(Clamped(to=event.item))

    with pytest.raises(DefinitionError, match="Warped has __getattribute__"):

        class Takes(Agent, compiled=True):
            @on
            def warped(self, event: Warped, ctx: Context) -> None:
                pass

    with pytest.raises(DefinitionError, match="Doubles has __setattr__"):

        class Doubles(Agent, compiled=True):
            n: int = 0

            def __setattr__(self, name: str, value: int) -> None:
                super().__setattr__(name, 2 * value)

            @on
            def poke(self, event: Poke, ctx: Context) -> None:
                self.n = event.number


def test_names_and_defaults_are_refused() -> None:
    with pytest.raises(DefinitionError, match="tag__n is the name under which"):

        class Clash(Agent, compiled=True):
            tag: Annotated[str, Width(4)] = ""
            tag__n: int = 0

            @on
            def poke(self, event: Poke, ctx: Context) -> None:
                self.tag__n = 1

    with pytest.raises(DefinitionError, match=r"default 9223372036854775808: .* 64 bits"):

        class Huge(Agent, compiled=True):
            n: int = 2**63

            @on
            def poke(self, event: Poke, ctx: Context) -> None:
                self.n = 1

    with pytest.raises(DefinitionError, match=r"parts is a list\[float\] with the default \[0\]"):

        class Mixed(Agent, compiled=True):
            parts: Annotated[list[float], Length(2)] = msgspec.field(default_factory=lambda: [0])

            @on
            def poke(self, event: Poke, ctx: Context) -> None:
                self.parts[0] = -self.parts[0]
