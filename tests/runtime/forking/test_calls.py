"""Goal: calls in a fork take recorded replies; what has none is listed, and can be made fail."""

from __future__ import annotations

from pathlib import Path

from holdfast import Action, Agent, CallFailed, Context, Event, Fleet, call, on
from holdfast.engine.port import Parcel
from holdfast.model.calls import digest_of
from holdfast.runtime.forking.fork import Options
from holdfast.stepping.codebook import Codebook
from holdfast.stepping.inputs import reply_frame
from tests.runtime.forking.recordings import differences, forked
from tests.runtime.semantics import World, opened


class Asked(Event):
    city: str


class Weather(Event):
    city: str
    degrees: float


class Told(Action):
    city: str
    degrees: float


class Lost(Action):
    reason: str


@call
def weather(city: str) -> Weather:
    raise AssertionError("no function runs in a fork")


@call
def forecast(city: str) -> Weather:
    raise AssertionError("no function runs in a fork")


def fleet_of(function: object = weather, twice: bool = False) -> Fleet:
    class Station(Agent):
        answers: int = 0
        failures: int = 0

        @on
        def asked(self, event: Asked, ctx: Context) -> None:
            for _ in range(2 if twice else 1):
                ctx.call(function, event.city, reply=Weather, timeout=2.0, retries=1)  # type: ignore[arg-type]

        @on
        def answered(self, event: Weather, ctx: Context) -> None:
            self.answers += 1
            ctx.emit(Told(city=event.city, degrees=event.degrees))

        @on
        def failed(self, event: CallFailed, ctx: Context) -> None:
            self.failures += 1
            ctx.emit(Lost(reason=event.reason))

    return Fleet("weather", agents=[Station])


def answer(world: World, degrees: float) -> int:
    """Reply to all open calls, as a call runner would."""
    from holdfast.runtime.schemas import agree

    codebook: Codebook = agree(world.fleet, world.engine.catalog)[0]
    answered = 0
    for number in world.engine.catalog.layout.numbers:
        for each in world.engine.view(number).calls(0, 1_000):
            digest = digest_of(each.function, each.arguments)
            city = each.arguments[2:].decode()
            event = Weather(city=city, degrees=degrees)
            frame = reply_frame(
                each.agent, each.key, each.id, each.function, digest, event, codebook
            )
            world.engine.append(number, [Parcel(frame, frame.encode(), external=False)])
            answered += 1
    world.run()
    return answered


def record(world: World) -> None:
    station = world.fleet.agents["Station"]
    for number in range(10):
        for key in ("s-1", "s-2", "s-3"):
            world.live.send(station, key, Asked(city="Rome" if number % 2 else "Oslo"))
        world.pass_time(0.5)
        assert answer(world, degrees=float(number)) == 3
        world.pass_time(1.0)
    world.live.send(station, "s-1", Asked(city="Bern"))  # is open at the end
    world.pass_time(10.0)
    world.live.send(station, "s-2", Asked(city="Bonn"))
    world.run()


def test_unchanged_code_takes_every_reply(tmp_path: Path) -> None:
    with opened(fleet_of(), "memory", tmp_path, 2) as world:
        record(world)
        found = forked(world, fleet_of())
    assert differences(found) == {}
    assert found.outcome.totals == {"Told": [30, 30]}


def test_another_function_has_no_replies(tmp_path: Path) -> None:
    with opened(fleet_of(), "memory", tmp_path, 2) as world:
        record(world)
        outcome = forked(world, fleet_of(forecast)).outcome
        failing = forked(world, fleet_of(forecast), Options(calls_fail=True)).outcome
    assert outcome.counts == {"Told": {"missing": 30}}
    counts: dict[str, int] = {}
    for (function, agent, _, _), count in outcome.unanswered.items():
        assert (function, agent) == ("forecast", "Station")
        counts[function] = counts.get(function, 0) + count
    assert counts == {"forecast": 32}
    # Each times out after two attempts of two seconds, if its partition got so far.
    assert failing.counts["Lost"]["new"] >= 25
    first = next(each for each in failing.examples if each.name == "Lost")
    assert first.now == 1_000_000.0 + 4.0
    assert first.fork == {"reason": "timeout"}


def test_further_calls_take_what_was_recorded_for_the_same_arguments(tmp_path: Path) -> None:
    """Each asks twice; there is one reply for every two calls."""
    with opened(fleet_of(), "memory", tmp_path, 2) as world:
        record(world)
        outcome = forked(world, fleet_of(twice=True)).outcome
    assert outcome.totals == {"Told": [30, 30]}
    # Of 64 calls 30 have a reply, and two are open in production as well.
    assert sum(outcome.unanswered.values()) == 64 - 30 - 2


def test_a_reply_that_came_after_the_end_is_a_reply(tmp_path: Path) -> None:
    """Production had the call open at that time too, and it was answered later."""
    with opened(fleet_of(), "memory", tmp_path, 2) as world:
        record(world)
        for seconds in (0.1, 7.6, 13.6):
            found = forked(world, fleet_of(), Options(until=1_000_000.0 + seconds))
            assert found.outcome.unanswered == {}, seconds
        other = forked(world, fleet_of(forecast), Options(until=1_000_000.0 + 0.1))
        assert len(other.outcome.unanswered) == 3
