"""Goal: what can be called is said once, found without running it, and refused in one line."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from holdfast import CallFailed, Fleet, call
from holdfast.errors import DefinitionError, UsageError
from holdfast.model.agent import Agent
from holdfast.model.calls import (
    ARGUMENTS_BYTES_MAX,
    CallOptions,
    check_call,
    check_patience,
    digest_of,
    options_of,
    pack_arguments,
)
from holdfast.model.context import Context
from holdfast.model.event import Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import on


class Colour(Enum):
    RED = "red"


class Go(Event):
    to: str = ""


class Went(Event):
    to: str = ""


@call(concurrency=7)
def declared(to: str) -> Went:
    return Went(to)


@call
async def waiting(to: str) -> Went:
    return Went(to)


def plain(to: str, number: int = 3, *, call_id: str) -> Went:
    return Went(to)


def other(to: str) -> Went:
    return Went(to)


def helper(ctx: Context, to: str) -> None:
    ctx.call(other, to, reply=Went)


def not_called(to: str) -> str:
    return to.upper()


class Robot(Agent):
    @on
    def go(self, event: Go, ctx: Context) -> None:
        ctx.call(plain, not_called(event.to), reply=Went)
        helper(ctx, event.to)
        chosen = declared if event.to else waiting
        ctx.call(chosen, event.to, reply=Went)


def test_options_are_noted_and_the_function_stays_what_it_is() -> None:
    assert declared("x") == Went("x")
    assert options_of(declared) == CallOptions("process", 7)
    assert options_of(waiting) == CallOptions("async", 4)
    assert options_of(plain) == CallOptions("process", 4)

    async def bare() -> None: ...

    assert options_of(bare) == CallOptions("async", 4)


def test_functions_are_found_in_handlers_and_their_helpers() -> None:
    """Those that are marked wherever they are mentioned, others where they stand in the call."""
    fleet = FleetModel("f", agents=[Robot])
    assert fleet.calls == {
        "plain": plain,
        "other": other,
        "declared": declared,
        "waiting": waiting,
    }


def test_a_function_behind_a_module_is_found() -> None:
    here = sys.modules[__name__]

    class Afar(Agent):
        @on
        def go(self, event: Go, ctx: Context) -> None:
            ctx.call(here.other, event.to, reply=Went)

    assert FleetModel("f", agents=[Afar]).calls == {"other": other}


def test_functions_can_be_named() -> None:
    class Quiet(Agent):
        @on
        def go(self, event: Go, ctx: Context) -> None: ...

    assert Fleet("f", agents=[Quiet], calls=[declared]).calls == {"declared": declared}
    assert FleetModel("f", agents=[Quiet]).calls == {}


def test_every_fleet_knows_the_failure() -> None:
    assert FleetModel("f", agents=[Robot]).events["CallFailed"] is CallFailed


def twin(name: str) -> Callable[[str], Went]:
    def made(to: str) -> Went:
        return Went(to)

    made.__name__ = made.__qualname__ = name
    return made


def test_two_functions_of_one_name_are_refused() -> None:
    fleet = FleetModel("f", agents=[Robot])
    fleet.adopt_call(plain)
    with pytest.raises(DefinitionError, match="calls two functions named plain"):
        fleet.adopt_call(twin("plain"))


@pytest.mark.parametrize(
    ("options", "function", "complaint"),
    [
        ({"kind": "process"}, waiting, 'waiting, which is an `async def`: use kind="async"'),
        ({"kind": "async"}, plain, 'plain, which is a plain `def`: use kind="process"'),
        ({"kind": "thread"}, plain, "kind='thread') on plain: use"),
        ({"concurrency": 0}, plain, "concurrency=0) on plain: give a whole number from 1"),
        ({"concurrency": True}, plain, "concurrency=True"),
        ({"concurrency": 1.5}, plain, "concurrency=1.5"),
        ({}, print, "which is no plain function"),
        ({}, Robot.go, "@call on Robot.go, which cannot be imported by its name"),
        ({}, lambda to: to, "<lambda>, which cannot be imported"),
        ({}, functools.partial(plain), "which is no plain function"),
    ],
)
def test_what_cannot_be_declared_is_refused(
    options: dict[str, Any], function: Any, complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(complaint)) as refusal:
        call(**options)(function)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("function", "arguments", "reply", "complaint"),
    [
        (plain, (), Went, "ctx.call of plain(to: 'str', number: 'int' = 3) -> 'Went': missing"),
        (plain, ("x", 1, 2), Went, "too many positional arguments"),
        (plain, ("x",), Colour, "reply=<enum 'Colour'>: give the Event class it returns"),
        (plain, ("x",), Went("x"), "give the Event class it returns"),
        (plain, ("x",), Event, "give the Event class it returns"),
        (plain, ("x",), CallFailed, "give the Event class it returns"),
        (len, ("x",), Went, "ctx.call of <built-in function len>, which is no plain function"),
        (Robot, ("x",), Went, "which is no plain function"),
        (Robot.go, ("x",), Went, "ctx.call of Robot.go, which cannot be imported by its name"),
        (lambda to: to, ("x",), Went, "cannot be imported by its name"),
    ],
)
def test_wrong_calls_are_refused(
    function: object, arguments: tuple[object, ...], reply: object, complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as refusal:
        check_call(function, arguments, reply)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("patience", "complaint"),
    [
        ((0, 2, 1.0), "timeout=0: give seconds above 0"),
        ((float("nan"), 2, 1.0), "timeout=nan"),
        ((float("inf"), 2, 1.0), "timeout=inf"),
        ((True, 2, 1.0), "timeout=True"),
        (("1", 2, 1.0), "timeout='1'"),
        ((1.0, -1, 1.0), "retries=-1: give 0, 1, 2"),
        ((1.0, 1.5, 1.0), "retries=1.5"),
        ((1.0, True, 1.0), "retries=True"),
        ((1.0, 10**30, 1.0), "1,000,000 at most"),
        ((1.0, 0, -1), "backoff=-1: give seconds from 0 up"),
        ((1.0, 0, float("nan")), "backoff=nan"),
    ],
)
def test_wrong_patience_is_refused(patience: tuple[object, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        check_patience("plain", *patience)


def test_arguments_are_packed_and_bounded() -> None:
    mixed = (1, "x", 2.5, None, [1], {"a": (1,)}, Colour.RED, Go("x"), {3: b"y"})
    assert pack_arguments("f", mixed) == pack_arguments("f", mixed)
    with pytest.raises(UsageError, match="arguments cannot be stored"):
        pack_arguments("f", (object(),))
    with pytest.raises(UsageError, match="arguments cannot be stored"):
        pack_arguments("f", (2**70,))
    most = ARGUMENTS_BYTES_MAX - 6  # the array and the text say their lengths
    assert len(pack_arguments("f", ("x" * most,))) == ARGUMENTS_BYTES_MAX
    with pytest.raises(UsageError, match=r"with 1,048,577 bytes of arguments, the bound is"):
        pack_arguments("f", ("x" * (most + 1),))


def test_equal_calls_have_equal_digests() -> None:
    """Also where a set has another order in another process."""
    words = ["alpha", "bravo", "delta", "hotel", "india"]
    one = pack_arguments("f", ({"names": set(words)}, frozenset(words)))
    other = pack_arguments("f", ({"names": sorted(words)}, sorted(words)))
    assert digest_of("f", one) == digest_of("f", other)
    assert digest_of("g", one) != digest_of("f", one)
    assert digest_of("f", pack_arguments("f", (1,))) != digest_of("f", pack_arguments("f", (2,)))
    assert pack_arguments("f", ({"b": 1, "a": 2},)) != pack_arguments("f", ({"a": 2, "b": 1},))
