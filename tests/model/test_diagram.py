"""Goal: a diagram shows what the code says: modes, moves, guards, and what handlers send."""

from enum import Enum
from itertools import pairwise
from xml.etree import ElementTree

from holdfast.model.agent import Agent
from holdfast.model.context import Context
from holdfast.model.diagram import mermaid, mermaid_of, svg
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import on


class Phase(Enum):
    IDLE = "idle"
    FLYING = "flying"
    LANDING = "landing"
    LOST = "lost"


class Start(Event):
    pass


class Battery(Event):
    percent: float


class Tick(Event):
    pass


class Order(Event):
    phase: Phase


class Stop(Action):
    pass


class Log(Action):
    pass


def low(agent: Agent, event: Battery) -> bool:
    return event.percent < 15.0


def stop(drone: "Drone", ctx: Context) -> None:
    drone.phase = Phase.LANDING
    ctx.emit(Stop())


class Drone(Agent):
    phase: Phase = Phase.IDLE
    count: int = 0

    @on(mode=Phase.IDLE)
    def start(self, event: Start, ctx: Context) -> None:
        self.phase, self.count = Phase.FLYING, 1
        ctx.after(5.0, Tick())

    @on(mode=Phase.FLYING)
    def tick(self, event: Tick, ctx: Context) -> None:
        self.phase = Phase.IDLE if self.count > 3 else Phase.LANDING

    @on(when=low)
    def drained(self, event: Battery, ctx: Context) -> None:
        stop(self, ctx)

    @on
    def measured(self, event: Battery, ctx: Context) -> None:
        self.note(ctx)

    def note(self, ctx: Context) -> None:
        ctx.emit(Log())


class Obeying(Agent):
    phase: Phase = Phase.LOST

    @on(mode=Phase.LOST)
    def told(self, event: Order, ctx: Context) -> None:
        self.phase = event.phase


class Depot(Agent):
    @on
    def heard(self, event: Start | Tick, ctx: Context) -> None:
        ctx.send(Drone, "d", Battery(percent=1.0))
        ctx.emit(Stop())

    @on(when=lambda self, event: event.percent > 1.0)
    def measured(self, event: Battery, ctx: Context) -> None: ...


def test_an_agent_with_modes_is_a_state_diagram() -> None:
    assert mermaid_of(Drone).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> IDLE",
        "    IDLE --> FLYING : Start / Tick",
        "    FLYING --> IDLE : Tick",
        "    FLYING --> LANDING : Tick",
        "    IDLE --> LANDING : Battery [low] / Stop",
        "    FLYING --> LANDING : Battery [low] / Stop",
        "    LANDING --> LANDING : Battery [low] / Stop",
        "    LOST --> LANDING : Battery [low] / Stop",
        "    IDLE --> IDLE : Battery / Log",
        "    FLYING --> FLYING : Battery / Log",
        "    LANDING --> LANDING : Battery / Log",
        "    LOST --> LOST : Battery / Log",
    ]


def test_a_computed_mode_may_be_any() -> None:
    assert mermaid_of(Obeying).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> LOST",
        "    LOST --> IDLE : Order",
        "    LOST --> FLYING : Order",
        "    LOST --> LANDING : Order",
        "    LOST --> LOST : Order",
    ]


def test_an_agent_without_modes_is_a_chart() -> None:
    assert mermaid_of(Depot).splitlines() == [
        "flowchart LR",
        '    e0["Start"]',
        '    e1["Tick"]',
        '    e2["Battery"]',
        '    h0("heard")',
        '    h1("measured [when]")',
        '    o0["Battery (event)"]',
        '    o1["Stop (action)"]',
        "    e0 --> h0",
        "    e1 --> h0",
        "    e2 --> h1",
        "    h0 --> o0",
        "    h0 --> o1",
    ]


def test_a_fleet_is_one_document_with_a_diagram_per_agent() -> None:
    text = mermaid(FleetModel("delivery", agents=[Drone, Depot]))
    assert text.startswith("# Fleet delivery\n\n## Drone\n\n```mermaid\nstateDiagram-v2\n")
    assert "\n```\n\n## Depot\n\n```mermaid\nflowchart LR\n" in text
    assert text.endswith("\n```\n")


def test_a_modeless_handler_is_not_drawn_where_another_always_goes_first() -> None:
    class Robot(Agent):
        phase: Phase = Phase.IDLE

        @on(mode=[Phase.IDLE, Phase.FLYING])
        def first(self, event: Tick, ctx: Context) -> None: ...

        @on
        def rest(self, event: Tick, ctx: Context) -> None:
            ctx.emit(Log())

    assert [line for line in mermaid_of(Robot).splitlines() if "Log" in line] == [
        "    LANDING --> LANDING : Tick / Log",
        "    LOST --> LOST : Tick / Log",
    ]


def test_code_without_source_still_shows_what_it_mentions() -> None:
    names: dict[str, object] = dict(globals())
    exec(
        "class Typed(Agent):\n"
        "    @on\n"
        "    def told(self, event: Start, ctx: Context) -> None:\n"
        "        ctx.emit(Stop())\n",
        names,
    )
    assert '    o0["Stop (action)"]' in mermaid_of(names["Typed"]).splitlines()  # type: ignore[arg-type]


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_is_valid_and_says_the_same() -> None:
    picture = svg(FleetModel("delivery", agents=[Drone, Depot]))
    shown = texts(picture)
    assert shown[0] == "Fleet delivery"
    assert {"Drone", "IDLE", "FLYING", "LANDING", "LOST", "Depot", "heard"} <= set(shown)
    assert shown.count("Battery [low] / Stop") == 4
    assert shown.count("Battery / Log") == 4
    assert picture.count("<polyline") == 1 + 6 + 3 + 2  # first mode, moves, chart


def test_no_two_texts_of_the_picture_share_a_place() -> None:
    """What makes it readable: every label has a line of its own."""
    root = ElementTree.fromstring(svg(FleetModel("delivery", agents=[Drone])))
    space = "{http://www.w3.org/2000/svg}"
    rows: dict[str, list[tuple[float, float]]] = {}
    for each in root.iterfind(f"{space}g/{space}text"):
        left = float(each.get("x", "0"))
        rows.setdefault(each.get("y", ""), []).append((left, left + len(each.text or "") * 7.3))
    assert sum(map(len, rows.values())) == 4 + 6 + 5  # modes, moves, and what they do in place
    for places in rows.values():
        places.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(places))


def test_names_that_mean_something_in_xml_do_no_harm() -> None:
    class Robot(Agent):
        phase: Phase = Phase.IDLE

        @on(mode=Phase.IDLE, when=lambda self, event: 1 < 2 > 0)
        def told(self, event: Start, ctx: Context) -> None: ...

    assert "Start [when]" in texts(svg(FleetModel("a-b", agents=[Robot])))
