"""Goal: through a real fleet, in memory and on disk: an event that fails in any way is undone
wholly and becomes a dead letter that survives a restart; everybody else goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Action, Agent, Context, Event, Fleet, Live, on
from tests.runtime.semantics import ENGINES, engine_url, opened

probe: list[Callable[[], object]] = []
noted: list[object] = []


class Do(Event):
    what: str
    route: list[int] = []


class Rang(Event):
    number: int


class Got(Event):
    label: str


class Fly(Action):
    route: list[int]


class Beep(Action):
    volume: int


class Drone(Agent):
    count: int = 0
    height: float = 0.0
    route: list[int] = []
    tags: dict[str, list[str]] = {}
    drawn: list[float] = []
    ids: list[str] = []

    @on
    def do(self, event: Do, ctx: Context) -> None:
        self.count += 1
        self.tags.setdefault("seen", []).append(event.what)
        self.drawn.append(ctx.random.random())
        self.ids.append(ctx.new_id())
        ctx.log.info(f"doing {event.what}")
        getattr(self, event.what)(event, ctx)

    def good(self, event: Do, ctx: Context) -> None:
        ctx.emit(Beep(1))

    def fly(self, event: Do, ctx: Context) -> None:
        """The event's own list becomes the state, an action shows it, and then it changes."""
        self.route = event.route
        ctx.emit(Fly(self.route))
        self.route.append(99)

    def shorten(self, event: Do, ctx: Context) -> None:
        self.route.pop(0)

    def mess(self, event: Do, ctx: Context) -> None:
        self.route.clear()
        self.tags.clear()
        ctx.emit(Beep(2))
        ctx.send(Drone, "d-9", Got("never"))
        ctx.after(0.001, Rang(1))
        raise LookupError("a mess")

    def leave(self, event: Do, ctx: Context) -> None:
        raise SystemExit("bye")

    def recurse(self, event: Do, ctx: Context) -> None:
        self.recurse(event, ctx)

    def misfit(self, event: Do, ctx: Context) -> None:
        self.height = "high"  # type: ignore[assignment]

    def misfit_inside(self, event: Do, ctx: Context) -> None:
        self.tags["seen"].append(5)  # type: ignore[arg-type]

    def loud(self, event: Do, ctx: Context) -> None:
        ctx.emit(Beep("loud"))  # type: ignore[arg-type]

    def bad_timer(self, event: Do, ctx: Context) -> None:
        ctx.after(0.001, Rang("one"))  # type: ignore[arg-type]

    def half_a_character(self, event: Do, ctx: Context) -> None:
        raise ValueError("\ud83d")

    def observed(self, event: Do, ctx: Context) -> None:
        noted.append(probe[0]())
        raise ValueError("seen")

    @on
    def rang(self, event: Rang, ctx: Context) -> None:
        self.count += 1_000

    @on
    def got(self, event: Got, ctx: Context) -> None:
        self.tags["got"] = [event.label]


fleet = Fleet("drones", agents=[Drone])

REASONS = {
    "mess": "LookupError: a mess",
    "leave": "SystemExit: bye",
    "recurse": "RecursionError: maximum recursion depth exceeded",
    "misfit": "UsageError: Drone: field 'height' cannot be 'high'",
    "misfit_inside": "UsageError: Drone: field 'tags' cannot be",
    "loud": "UsageError: Beep: field 'volume' cannot be 'loud'",
    "bad_timer": "UsageError: Rang: field 'number' cannot be 'one'",
    "half_a_character": "ValueError: \\ud83d",
}


@pytest.fixture(params=ENGINES)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with fleet.open(engine_url(request.param, tmp_path)) as made:
        yield made


def state(live: Live, key: str = "d-1") -> Drone:
    live.settle()
    found = live.state(Drone, key)
    assert found is not None
    return found


def test_every_failure_is_undone_and_named(live: Live) -> None:
    """One batch: a calm twin gets the same events without the failing ones, and is its equal."""
    live.send_many([(Drone, "d-1", Do("fly", [1, 2, 3]))])
    events = []
    for what in REASONS:
        events += [Do(what, [7]), Do("good")]
    live.send_many([(Drone, "d-1", event) for event in events])
    live.settle()
    letters = live.dead_letters()
    assert [letter.event for letter in letters] == [Do(what, [7]) for what in REASONS]
    for letter, reason in zip(letters, REASONS.values(), strict=True):
        assert letter.error.startswith(reason)
    drone = state(live)
    assert drone.count == 1 + len(REASONS)
    assert drone.route == [1, 2, 3, 99]
    assert drone.tags == {"seen": ["fly"] + ["good"] * len(REASONS)}
    assert [a.action for a in live.actions()] == [Fly([1, 2, 3])] + [Beep(1)] * len(REASONS)
    assert live.state(Drone, "d-9") is None


def test_random_numbers_and_ids_are_those_of_a_life_without_failures(tmp_path: Path) -> None:
    def lived(engine: str, events: list[str]) -> Drone:
        with fleet.open(engine_url(engine, tmp_path / f"{engine}-{len(events)}")) as live:
            for what in events:
                live.send(Drone, "d-1", Do(what))
            return state(live)

    calm = lived("memory", ["good", "good", "good"])
    for engine in ENGINES:
        hit = lived(engine, ["good", "mess", "good", "leave", "recurse", "good"])
        assert (hit.drawn, hit.ids) == (calm.drawn, calm.ids)
        assert len(set(hit.ids)) == 3


def test_lists_of_events_and_actions_are_nobody_elses(live: Live) -> None:
    """Also when the batch runs twice because one of its events fails."""
    rows = [
        (Drone, "d-1", Do("fly", [1, 2])),
        (Drone, "d-1", Do("shorten")),
        (Drone, "d-1", Do("mess")),
        (Drone, "d-2", Do("fly", [3])),
    ]
    live.send_many(rows)
    assert state(live).route == [2, 99]
    assert state(live, "d-2").route == [3, 99]
    assert [a.action for a in live.actions()] == [Fly([1, 2]), Fly([3])]
    assert live.history(Drone, "d-1")[0].event == Do("fly", [1, 2])


def test_what_a_failed_event_logged_is_not_shown(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.agent")
    live.send_many([(Drone, "d-1", Do("good")), (Drone, "d-1", Do("mess"))])
    live.settle()
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.agent"]
    assert lines == ["Drone/d-1: doing good"]


def test_a_letter_tells_where_it_happened(live: Live) -> None:
    live.send(Drone, "d-1", Do("mess"))
    live.settle()
    [letter] = live.dead_letters()
    assert "in mess" in letter.trace
    assert 'raise LookupError("a mess")' in letter.trace
    assert (letter.agent, letter.key, letter.redriven) == ("Drone", "d-1", False)


def test_letters_and_states_survive_a_restart(tmp_path: Path) -> None:
    url = engine_url("sqlite", tmp_path)
    with fleet.open(url) as live:
        for what in REASONS:
            live.send_many([(Drone, "d-1", Do("good")), (Drone, "d-1", Do(what))])
        before, drone = live_letters(live), state(live)
    with fleet.open(url) as live:
        assert live_letters(live) == before
        assert len(before) == len(REASONS)
        assert state(live) == drone


def live_letters(live: Live) -> list[tuple[str, object, str]]:
    live.settle()
    return [(letter.id, letter.event, letter.error) for letter in live.dead_letters()]


def test_a_flood_of_failures_is_progress(tmp_path: Path) -> None:
    """A watchdog must be able to tell many failing events from one that never ends."""
    with opened(fleet, "memory", tmp_path) as world:
        probe.append(world.worker.progress)
        world.live.send_many([(Drone, "d-1", Do("observed"))] * 50)
        world.run()
        probe.clear()
        assert len(world.live.dead_letters()) == 50
    assert None not in noted
    assert len(set(noted)) >= 50
