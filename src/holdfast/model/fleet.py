"""The fleet as a set of classes: its agents, and the events and actions that concern them.

Names on the wire are bare class names, so a fleet may have each name once. How a fleet is opened
and run is in `runtime`; `Fleet`, which users write, derives from `FleetModel`.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import TypeAlias

from holdfast.errors import DefinitionError
from holdfast.model.agent import Agent
from holdfast.model.calls import CallFailed, CallFunction, why_not_callable
from holdfast.model.event import Action, Event
from holdfast.model.keys import is_key, shortened, why_not_a_name
from holdfast.model.references import calls_in, references
from holdfast.model.schema import Schema
from holdfast.model.undoing import result_of, undo_of
from holdfast.model.view import AnyView, View, check_view

_Class: TypeAlias = type[Agent] | type[Event] | type[Action] | type[AnyView]


class FleetModel:
    """Checked classes by name. Events, actions and functions that are called are found in the
    handlers; name those that are not (built by code outside the handlers, say) in `events=`,
    `actions=` and `calls=`."""

    def __init__(
        self,
        name: str,
        agents: Iterable[type[Agent]],
        events: Iterable[type[Event]] = (),
        actions: Iterable[type[Action]] = (),
        calls: Iterable[CallFunction] = (),
        views: Iterable[type[AnyView]] = (),
    ) -> None:
        if not is_key(name):
            raise DefinitionError(
                f"{shortened(name)} cannot be the name of a fleet: {why_not_a_name(name)}"
            )
        self.name = name
        self.agents: dict[str, type[Agent]] = {}
        self.events: dict[str, type[Event]] = {}
        self.actions: dict[str, type[Action]] = {}
        self.calls: dict[str, CallFunction] = {}
        self.views: dict[str, type[AnyView]] = {}
        for agent in agents:
            self._add_agent(agent)
        if not self.agents:
            raise DefinitionError(f"fleet {name} has no agents: write `agents=[Drone]`")
        for event in events:
            self._check_is(event, Event, "events")
            self.adopt(event)
        for action in actions:
            self._check_is(action, Action, "actions")
            self.adopt(action)
        for agent in self.agents.values():
            for mentioned in mentioned_by(agent):
                self.adopt(mentioned)
        for view in views:
            self._add_view(view)
        self._adopt_undos()
        self.adopt(CallFailed)
        for function in (*calls, *called_by(self.agents.values())):
            self.adopt_call(function)
        self._check_compiled()

    def adopt(self, cls: type[Event] | type[Action]) -> None:
        """Take in a class met at run time; nothing happens if the fleet has it."""
        known = self.events if issubclass(cls, Event) else self.actions
        if known.get(cls.__name__) is cls:
            return
        self._check_free(cls)
        if issubclass(cls, Event):
            # Before it is known: whoever finds the class also finds its handlers.
            for agent in self.agents.values():
                agent.__holdfast__.serve(cls)
            self.events[cls.__name__] = cls
        else:
            self.actions[cls.__name__] = cls

    def adopt_call(self, function: CallFunction) -> None:
        """Take in a function met at run time; nothing happens if the fleet has it."""
        reason = why_not_callable(function)
        if reason is not None:
            raise DefinitionError(f"fleet {self.name} has a call of {reason}")
        other = self.calls.setdefault(function.__name__, function)
        if other is not function:
            raise DefinitionError(
                f"fleet {self.name} calls two functions named {function.__name__} (modules "
                f"{function.__module__} and {other.__module__}): names on the wire are bare names, "
                "so rename one of them"
            )

    def _adopt_undos(self) -> None:
        """Actions that take others back, and those that take these back in turn."""
        waiting = list(self.actions.values())
        while waiting:
            action = waiting.pop()
            result = result_of(action, self.actions) or Action
            if not (isinstance(result, type) and issubclass(result, Action)):
                place = action.__holdfast__.place
                raise place.error(
                    f"{action.__name__}.undo returns {shortened(result)}: it has to be an Action"
                )
            # An undo that only promises some Action says in its code which.
            for made in ({result} - {Action}) | set(references([undo_of(action)], action)):
                if issubclass(made, Action) and self.actions.get(made.__name__) is not made:
                    self.adopt(made)
                    waiting.append(made)

    def _check_compiled(self) -> None:
        """Again, now that all names that their handlers use are defined."""
        for agent in self.agents.values():
            if agent.__holdfast__.compiled:
                from holdfast.model.compiling.checking import check_compiles

                check_compiles(agent, final=True)

    def schemas(self) -> list[Schema]:
        """Every schema the fleet's data needs: states, events, actions, each sorted by name."""
        states = [cls.__holdfast__.schema for cls in self.agents.values()]
        events = [cls.__holdfast__.schema for cls in self.events.values()]
        actions = [cls.__holdfast__.schema for cls in self.actions.values()]
        by_name = attrgetter("name")
        return [each for kind in (states, events, actions) for each in sorted(kind, key=by_name)]

    def _add_agent(self, agent: type[Agent]) -> None:
        self._check_is(agent, Agent, "agents")
        if self.agents.get(agent.__name__) is agent:
            raise DefinitionError(f"fleet {self.name} lists {agent.__name__} twice: once is enough")
        self._check_free(agent)
        self.agents[agent.__name__] = agent

    def _add_view(self, view: type[AnyView]) -> None:
        self._check_is(view, View, "views")
        taken = check_view(view).__holdfast__
        if taken.name in self.views:
            raise DefinitionError(f"fleet {self.name} has two views {taken.name}: rename one")
        self._check_free(view)
        self.views[taken.name] = view
        for cls in taken.classes().values():
            self.adopt(cls)

    def _check_is(self, cls: type, base: type, argument: str) -> None:
        if not (isinstance(cls, type) and issubclass(cls, base)) or cls is base:
            raise DefinitionError(
                f"fleet {self.name} has {shortened(cls)} in {argument}=: give classes derived "
                f"from {base.__name__}"
            )

    def _check_free(self, cls: _Class) -> None:
        name = cls.__name__
        for classes in (self.agents, self.events, self.actions, self.views):
            other: _Class | None = classes.get(name)
            if other is not None and other is not cls:
                raise DefinitionError(_same_name(self.name, cls, other))


def mentioned_by(agent: type[Agent]) -> list[type[Event] | type[Action]]:
    """The events an agent handles, and the events and actions its handlers and guards mention."""
    handlers = agent.__holdfast__.handlers
    handled = [event for handler in handlers for event in handler.events]
    code = [part for handler in handlers for part in (handler.function, handler.when)]
    return list(dict.fromkeys([*handled, *references(code, agent)]))


def called_by(agents: Iterable[type[Agent]]) -> list[CallFunction]:
    """The functions that the handlers and guards of these agents call, each once."""
    found: dict[CallFunction, None] = {}
    for agent in agents:
        handlers = agent.__holdfast__.handlers
        code = [part for handler in handlers for part in (handler.function, handler.when)]
        found.update(dict.fromkeys(calls_in(code, agent)))
    return list(found)


def _same_name(
    fleet: str,
    cls: _Class,
    other: _Class,
) -> str:
    here, there = cls.__holdfast__.place, other.__holdfast__.place
    message = (
        f"{here.file}:{here.line}: fleet {fleet} has two classes named {cls.__name__}; the other "
        f"is at {there.file}:{there.line}: "
    )
    if here == there:
        return message + (
            f"the same class was made twice (modules {cls.__module__} and {other.__module__}), so "
            f"import the file under one name only, and do not define classes in a loop"
        )
    return message + "names on the wire are bare class names, so rename one of them"
