"""The table: which topic is which event, and which action goes to which topic.

A TOML file, or what is usual: with one class of agents, `agents/{key}/{event}` are its events, and
its actions go to `agents/{key}/command`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, cast

from holdfast.errors import UsageError
from holdfast.gateway.mqtt.payloads import FORMATS, Format, check_format
from holdfast.model.fates import MADE_HERE
from holdfast.runtime.naming import suggestion
from holdfast.runtime.sending import check_sendable

PREFIX = "agents"
_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_CLASS = re.compile(r"(?P<agent>\w+)(?:/(?P<name>\w+))?")


class Template:
    """A topic with places for `{key}` and perhaps another word."""

    def __init__(self, text: str, word: str) -> None:
        """`word` is what may stand beside the key: "event" or "action"."""
        self.text = text
        self._levels = text.split("/")
        known = {"{key}", f"{{{word}}}"}
        for level in self._levels:
            if not level or set(level) & set("+#") or ("{" in level and level not in known):
                places = " and ".join(sorted(known))
                raise UsageError(
                    f"topic {text!r}: {level!r} cannot be a level of it: write plain words, with "
                    f"{places} as whole levels"
                )
        if self._levels.count("{key}") != 1 or self._levels.count(f"{{{word}}}") > 1:
            raise UsageError(f"topic {text!r}: {{key}} has to be in it once, as in agents/{{key}}")
        if text.startswith("$"):
            raise UsageError(f"topic {text!r}: topics that begin with $ are the broker's own")
        self.has_word = f"{{{word}}}" in self._levels
        groups = {"{key}": "(?P<key>[^/]*)", f"{{{word}}}": "(?P<word>[^/]*)"}
        self.match = re.compile(
            "/".join(groups.get(level) or re.escape(level) for level in self._levels)
        ).fullmatch

    @property
    def filter(self) -> str:
        return "/".join("+" if level.startswith("{") else level for level in self._levels)

    def filled(self, key: str, word: str) -> str:
        fill = {"{key}": key}
        return "/".join(fill.get(at, word if at.startswith("{") else at) for at in self._levels)


class EventRule(NamedTuple):
    topic: Template
    agent: str
    event: str | None  # None: the topic says it
    format: Format = "json"
    seq: str = "seq"  # fields of the payload: the number, and what begins a new count
    source: str = "source"


class ActionRule(NamedTuple):
    agent: str
    action: str | None  # None: all that no other rule is for
    topic: Template
    retain: bool = False


class Classes(NamedTuple):
    """The names that the data, or the program, knows."""

    agents: Sequence[str]
    events: Sequence[str]
    actions: Sequence[str]


@dataclass(frozen=True)
class Table:
    events: Sequence[EventRule]
    actions: Sequence[ActionRule]

    @property
    def filters(self) -> list[str]:
        """What to subscribe to. A message that two of them want would come twice, so one that
        another one covers is left out."""
        wanted = list(dict.fromkeys(rule.topic.filter for rule in self.events))
        return [
            each
            for each in wanted
            if not any(other != each and _covers(other, each) for other in wanted)
        ]

    def is_ours(self, topic: str) -> bool:
        """Whether it is a topic that actions go to: what comes there was published by us."""
        return any(rule.topic.match(topic) for rule in self.actions)

    def action_rule(self, agent: str, action: str) -> ActionRule | None:
        own = [rule for rule in self.actions if rule.agent == agent]
        exact = [rule for rule in own if rule.action == action]
        return next(iter([*exact, *(rule for rule in own if rule.action is None)]), None)

    def check(self, known: Classes) -> None:
        """All classes are there, and no two subscriptions get the same message."""
        for rule in self.events:
            where = f"events of topic {rule.topic.text!r}"
            _check_name(where, "agent", rule.agent, known.agents)
            if rule.event is not None:
                _check_name(where, "event", rule.event, known.events)
                check_sendable(rule.event)
            check_format(rule.format)
        for each in self.actions:
            where = f"actions to topic {each.topic.text!r}"
            _check_name(where, "agent", each.agent, known.agents)
            if each.action is not None:
                _check_name(where, "action", each.action, known.actions)
        for one, other in combinations(self.filters, 2):
            if _overlap(one, other):
                raise UsageError(
                    f"the MQTT table: {one} and {other} get some messages both, which would come "
                    "twice: change one of the topics, or add one that covers both"
                )


def usual_table(known: Classes, prefix: str = PREFIX) -> Table:
    if len(known.agents) != 1:
        names = ", ".join(known.agents) or "none yet"
        raise UsageError(
            f"this fleet has several agents ({names}): say in a table which topic is for which"
        )
    (agent,) = known.agents
    return Table(usual_events(agent, prefix), usual_actions(agent, prefix))


def usual_events(agent: str, prefix: str) -> list[EventRule]:
    return [EventRule(Template(f"{prefix}/{{key}}/{{event}}", "event"), agent, None)]


def usual_actions(agent: str, prefix: str) -> list[ActionRule]:
    return [ActionRule(agent, None, Template(f"{prefix}/{{key}}/command", "action"))]


def read_table(path: str | None, known: Classes) -> Table:
    """The file's, or the usual one; checked against the classes."""
    table = usual_table(known) if path is None else _read(Path(path), known)
    table.check(known)
    return table


def _read(path: Path, known: Classes) -> Table:
    try:
        return _parse(tomllib.loads(path.read_text("utf-8")), known)
    except OSError as error:
        raise UsageError(f"the MQTT table {path}: {error.strerror}: name a file") from None
    except (UnicodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the MQTT table {path} is no TOML: {error}") from None
    except UsageError as error:
        raise UsageError(f"the MQTT table {path}: {error}") from None


def _parse(found: Mapping[str, object], known: Classes) -> Table:
    _check_names(found, ("prefix", "events", "actions"), "the file")
    prefix = found.get("prefix", PREFIX)
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise UsageError(f"prefix = {prefix!r}: give words with / between them, as in 'agents'")
    events = [_event_rule(each) for each in _tables(found, "events")]
    actions = [_action_rule(each) for each in _tables(found, "actions")]
    if "events" in found and "actions" in found:
        return Table(events, actions)
    usual = usual_table(known, prefix)
    return Table(
        events if "events" in found else usual.events,
        actions if "actions" in found else usual.actions,
    )


def _tables(found: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    tables = found.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"{name} are tables: write [[{name}]] above each, or {name} = [] for none")
    return cast("list[Mapping[str, object]]", tables)


def _event_rule(found: Mapping[str, object]) -> EventRule:
    _check_names(found, ("topic", "is", "format", "seq", "source"), "[[events]]")
    topic = Template(_text(found, "topic"), "event")
    agent, event = _class(found, "is")
    form = _text(found, "format", "json")
    if form not in FORMATS:
        raise UsageError(f"format = {form!r}: {', '.join(FORMATS)}")
    if topic.has_word == (event is not None):
        raise UsageError(
            f"topic {topic.text!r} is {found['is']!r}: name the event in one of both: "
            "Agent/Event, or Agent and {event} in the topic"
        )
    names = (_text(found, "seq", "seq"), _text(found, "source", "source"))
    return EventRule(topic, agent, event, form, *names)


def _action_rule(found: Mapping[str, object]) -> ActionRule:
    _check_names(found, ("of", "topic", "retain"), "[[actions]]")
    agent, action = _class(found, "of")
    retain = found.get("retain", False)
    if not isinstance(retain, bool):
        raise UsageError(f"retain = {retain!r}: write true or false")
    return ActionRule(agent, action, Template(_text(found, "topic"), "action"), retain)


def _class(found: Mapping[str, object], name: str) -> tuple[str, str | None]:
    text = _text(found, name)
    matched = _CLASS.fullmatch(text)
    if matched is None:
        raise UsageError(f"{name} = {text!r}: write Agent, or Agent/Name")
    return matched["agent"], matched["name"]


def _text(found: Mapping[str, object], name: str, usual: str | None = None) -> str:
    value = found.get(name, usual)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} is {'missing' if value is None else repr(value)}: give a text")
    return value


def _check_names(found: Mapping[str, object], known: Sequence[str], where: str) -> None:
    for name in found:
        if name not in known:
            raise UsageError(f"{where} has an unknown {name!r}: {suggestion(name, known)}")


def _check_name(where: str, kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        shown = [each for each in known if each not in MADE_HERE]
        raise UsageError(f"{where}: no {kind} {name!r}: {suggestion(name, shown)}")


def _overlap(one: str, other: str) -> bool:
    """Whether a topic can match both filters."""
    pairs = list(zip(one.split("/"), other.split("/"), strict=False))
    same_length = one.count("/") == other.count("/")
    return same_length and all(a == b or "+" in (a, b) for a, b in pairs)


def _covers(wide: str, narrow: str) -> bool:
    pairs = list(zip(wide.split("/"), narrow.split("/"), strict=False))
    same_length = wide.count("/") == narrow.count("/")
    return same_length and all(a in ("+", b) for a, b in pairs)
