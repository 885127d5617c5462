"""Diagrams of a fleet, drawn from what its code says: Mermaid for documents, SVG for a browser.

An agent with modes is a state diagram: its modes, and an arrow for every handler that may set
another one. An agent without modes is a chart of events, handlers and what they send. The reading
of the code is in `behaviour`, the placing of boxes in `drawing`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from holdfast.model.agent import Agent
from holdfast.model.behaviour import Output, behaviour_of
from holdfast.model.drawing import Arrow, Box, Chart, Drawing, draw_chart, draw_states, page
from holdfast.model.event import Action, Event
from holdfast.model.fleet import FleetModel
from holdfast.model.handlers import Handler


@dataclass(frozen=True)
class Move:
    """One event taken in one mode: where it may lead, and what it says outside."""

    source: Enum
    target: Enum
    label: str


def mermaid(fleet: FleetModel) -> str:
    """The fleet as Markdown, one Mermaid diagram per agent, as GitHub and others render it."""
    parts = [f"# Fleet {fleet.name}"]
    for name, agent in fleet.agents.items():
        parts.append(f"## {name}\n\n```mermaid\n{mermaid_of(agent)}\n```")
    return "\n\n".join(parts) + "\n"


def mermaid_of(agent: type[Agent]) -> str:
    """One Mermaid diagram of one agent."""
    return "\n".join(_state_lines(agent) if agent.__holdfast__.modes else _chart_lines(agent))


def svg(fleet: FleetModel) -> str:
    """The fleet as one SVG picture, the agents below each other."""
    drawings: list[tuple[str, Drawing]] = []
    for name, agent in fleet.agents.items():
        modes = agent.__holdfast__.modes
        drawings.append((name, _states_drawing(agent) if modes else _chart_drawing(agent)))
    return page(f"Fleet {fleet.name}", drawings)


# ---------------------------------------------------------------- agents with modes


def moves_of(agent: type[Agent]) -> list[Move]:
    """Every handler in every mode it serves; a move to the same mode if it sets no other."""
    found: dict[Move, None] = {}
    for handler in agent.__holdfast__.handlers:
        behaviour = behaviour_of(agent, handler)
        for event in handler.events:
            label = _label(event, handler, behaviour.outputs)
            for source in _modes_served(agent, handler, event):
                for target in behaviour.modes or (source,):
                    found.setdefault(Move(source, target, label))
    return list(found)


def _modes_served(agent: type[Agent], handler: Handler, event: type[Event]) -> list[Enum]:
    """The modes in which the handler gets the event: not those where another always goes first."""
    if handler.modes:
        return list(handler.modes)
    definition = agent.__holdfast__
    first = [each for each in definition.routes[event].handlers if each.when is None]
    taken = {mode for each in first for mode in each.modes}
    return [mode for mode in definition.modes if mode not in taken]


def _label(event: type[Event], handler: Handler, outputs: tuple[Output, ...]) -> str:
    guard = f" [{_guard_name(handler)}]" if handler.when is not None else ""
    sent = f" / {', '.join(each.__name__ for each in outputs)}" if outputs else ""
    return f"{event.__name__}{guard}{sent}"


def _guard_name(handler: Handler) -> str:
    name = getattr(handler.when, "__name__", "when")
    return "when" if name == "<lambda>" else str(name)


def _first_mode(agent: type[Agent]) -> Enum:
    definition = agent.__holdfast__
    mode: Enum = getattr(agent(), definition.mode_field or "")
    return mode


def _state_lines(agent: type[Agent]) -> Iterator[str]:
    yield "stateDiagram-v2"
    yield f"    [*] --> {_first_mode(agent).name}"
    moves = moves_of(agent)
    for mode in agent.__holdfast__.modes:
        if not any(mode in (move.source, move.target) for move in moves):
            yield f"    {mode.name}"
    for move in moves:
        yield f"    {move.source.name} --> {move.target.name} : {move.label}"


def _states_drawing(agent: type[Agent]) -> Drawing:
    moves = moves_of(agent)
    boxes = [
        Box(
            mode.name,
            [move.label for move in moves if move.source is mode and move.target is mode],
        )
        for mode in agent.__holdfast__.modes
    ]
    order = list(agent.__holdfast__.modes)
    arrows = [
        Arrow(order.index(move.source), order.index(move.target), move.label)
        for move in moves
        if move.source is not move.target
    ]
    return draw_states(boxes, arrows, first=order.index(_first_mode(agent)))


# ---------------------------------------------------------------- agents without modes


def _chart_of(agent: type[Agent]) -> Chart:
    chart = Chart([], [], [], [], [])
    for handler in agent.__holdfast__.handlers:
        guard = f" [{_guard_name(handler)}]" if handler.when is not None else ""
        chart.handlers.append(f"{handler.name}{guard}")
        at = len(chart.handlers) - 1
        for event in handler.events:
            chart.taken.append((_index(chart.events, event.__name__), at))
        for output in behaviour_of(agent, handler).outputs:
            kind = "action" if issubclass(output, Action) else "event"
            chart.sent.append((at, _index(chart.outputs, f"{output.__name__} ({kind})")))
    return chart


def _index(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def _chart_lines(agent: type[Agent]) -> Iterator[str]:
    chart = _chart_of(agent)
    yield "flowchart LR"
    for letter, names in (("e", chart.events), ("h", chart.handlers), ("o", chart.outputs)):
        opened, closed = ("(", ")") if letter == "h" else ("[", "]")
        for number, name in enumerate(names):
            yield f'    {letter}{number}{opened}"{name}"{closed}'
    yield from (f"    e{event} --> h{handler}" for event, handler in chart.taken)
    yield from (f"    h{handler} --> o{output}" for handler, output in chart.sent)


def _chart_drawing(agent: type[Agent]) -> Drawing:
    return draw_chart(_chart_of(agent))
