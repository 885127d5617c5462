"""The compiled form of an agent class: what its kernel holds, and how its arrays are laid out.

The module has one entry, which folds events from `ctl[0]` on until all are folded or one raises:

    fold(S, undo, images, touched, rows, codes, times, hops, at, batch, versions,
         ctl, clk, keys, offsets, rng, queue, scratch, prefix, E0, E1, …, out0, out1, …)

    S        records of `state_descr()`, one per agent in memory. `flags` not 0: not for compiled
             code (paused, holds events, a state or a named timer that stands aside). `timers`: how
             many it has, named or not. `updated`: ctx.now of the last event it took
    undo     one such record: the agent of the event at hand as it was before
    images, touched   for each agent that changed first in this batch: as it was, and its row
    rows     i8, per event: the row of its agent in S
    codes    u1, per event (or one for all): the index of its class in `events`
    times    f8, per event (or one for all): ctx.event_time
    hops     i8, per event (or one for all)
    at       i8, per event: where it is in the columns of its class
    batch    the number of this batch; S[i].batch is the last one that changed the agent
    versions i8, per event (or none): the version of its agent, set where one took it
    ctl      i8, CONTROLS of them:
             0 the event at hand             1 how many in images and touched
             2 outputs so far: the `order` of the next      3 serials used in this event
             4 hops of this event            5 after Unusual: the number of the output buffer that
             is full, plus 1; -1 for the queue, -2 for touched; else 0. Whoever called makes room,
             sets it back to 0 and folds the same event again
             6 not 0: ctx.reply is for the interpreter (an ask, or a message, whose sender answers)
             8 entries in queue              9 and 10 what 2 and 8 were before this event
             11 scratch in use               12 nothing: see `module`
             16 + k records in out k
             48 + k what 16 + k was before this event
    clk      f8: 0 ctx.now, 1 ctx.event_time (set by fold), 2 always 1.0
    keys, offsets     u1 and i8: the key of row i is keys[offsets[i] : offsets[i + 1]]
    rng      u8, 64 of them: work space
    queue    records of QUEUE_DESCR: named timers to be looked at when they are due
    scratch  u4: the code points of all `texts`, and 2**16 behind them
    prefix   u1: f"{fleet}\0{agent}\0", where identities begin
    E k      a tuple of the columns of class k: a text or list takes two, lengths and content
    out k    records of `outputs[k].descr()`

`fold` raises Unusual for an event that it cannot complete. Whoever called it puts undo[0] back into
S[rows[ctl[0]]], ctl[9] and ctl[10] into ctl[2] and ctl[8], ctl[48 + k] into ctl[16 + k], lets the
interpreter fold that event, and calls again with ctl[0] + 1. A record of `state_descr()`:

    version, updated, flags, batch, timers     as above
    f_<field>                        and f_<field>__n in front for a text or list: how long it is
    t<k>_due, t<k>_queued, t<k>_period, t<k>_event    timer k of `timers`: due 0.0 if it is not set,
                                     queued: for when it was put into the queue, 0.0 if not (whoever
                                     takes it out sets that back), event: the index of its class
    t<k>_<e>_<field>                 the fields of its event, if it is of class e of that timer
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING

from holdfast.model.calls import CallFailed
from holdfast.model.compiling.functions import Function
from holdfast.model.compiling.kinds import (
    FLOAT,
    INT,
    TEXT,
    CannotCompile,
    Kind,
    Part,
    descr,
    parts_of,
)
from holdfast.model.compiling.module import text_of
from holdfast.model.compiling.values import Meaning, Value
from holdfast.model.fates import TOLD, ActionExpired
from holdfast.model.layout import Slot

if TYPE_CHECKING:
    from holdfast.model.agent import Agent, AgentDefinition

CONTROLS = 128
CLASSES_MAX = 255  # that one class handles, or sends to: a code has one byte, and one is spare
OUTPUTS_MAX = 32  # classes that one agent class makes: ctl has that many counters
QUEUE_DESCR = [("row", "<i8"), ("timer", "<i8"), ("due", "<f8")]


@dataclass(frozen=True)
class Output:
    """A buffer of records: `way` is "emit", "send" or "arm", the last for timers without a name."""

    way: str
    cls: type
    slots: tuple[Slot, ...]

    def descr(self) -> list[tuple[object, ...]]:
        """`order` counts the outputs of all buffers; `to` is an index in `destinations`, `serial`
        the number in an unnamed timer's name."""
        fixed: list[tuple[object, ...]] = [("row", "<i8"), ("version", "<i8"), ("order", "<i8")]
        fixed.append(("now", "<f8"))
        if self.way == "send":
            fixed += [("to", "<i8"), ("hops", "<i8"), ("key__n", "<i8"), ("key", "<u1", (128,))]
        if self.way == "arm":
            fixed += [("serial", "<i8"), ("due", "<f8"), ("period", "<f8")]
        return fixed + descr(self.slots, "f_")


@dataclass
class TimerSlots:
    """A timer with a constant name lives in the record of its agent."""

    name: str
    classes: list[type] = field(default_factory=list)


class Program:
    """`agents` are the names of those in the fleet; a message to another is for the interpreter.

    While the class is being made not all names are known; `final` says that they have to be.
    """

    def __init__(
        self, agent: type[Agent], *, final: bool = True, agents: Collection[str] | None = None
    ) -> None:
        self.agent = agent
        self.final = final
        self.definition: AgentDefinition = agent.__holdfast__
        if ActionExpired in self.definition.routes:
            raise CannotCompile(
                "it handles ActionExpired, which takes a timer for each action: leave "
                "compiled=True out, or set a timer with ctx.after and cancel it in the handler of "
                "ActionAcknowledged"
            )
        # These have no fixed width; replies and what an operator causes are for the interpreter.
        theirs = (CallFailed, *TOLD)
        self.events = [event for event in self.definition.routes if event not in theirs]
        if len(self.events) > CLASSES_MAX:
            raise CannotCompile(
                f"{len(self.events)} classes of events, {CLASSES_MAX} is the most: merge some"
            )
        self.outputs: list[Output] = []
        self.timers: list[TimerSlots] = []
        self.destinations: list[type] = []
        self._agents = agents
        self._texts: dict[str, str] = {}
        self._members: dict[tuple[type[Enum], str], tuple[str, Kind, list[str]]] = {}
        self._functions: dict[tuple[FunctionType, tuple[Meaning, ...]], Function | None] = {}
        self._lowered: list[list[str]] = []
        self._parts: dict[type, tuple[Part, ...]] = {}
        self.fields = {part.name: part for part in self.parts(agent)}
        self.state = {name: part.slot for name, part in self.fields.items()}
        for event in self.events:
            self.parts(event)
        self.module = text_of(self)

    @property
    def texts(self) -> list[str]:
        return list(self._texts)

    def state_descr(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = [("version", "<i8"), ("updated", "<f8")]
        found += [("flags", "<i8"), ("batch", "<i8"), ("timers", "<i8")]
        found += descr(self.state.values(), "f_")
        for number, timer in enumerate(self.timers):
            found += [(f"t{number}_due", "<f8"), (f"t{number}_queued", "<f8")]
            found += [(f"t{number}_period", "<f8"), (f"t{number}_event", "<i8")]
            for which, cls in enumerate(timer.classes):
                found += descr(self.slots(cls), f"t{number}_{which}_")
        return found

    # What functions ask for while they are lowered.

    def parts(self, cls: type) -> tuple[Part, ...]:
        if cls not in self._parts:
            self._parts[cls] = parts_of(cls)
        return self._parts[cls]

    def slots(self, cls: type) -> tuple[Slot, ...]:
        return tuple(part.slot for part in self.parts(cls))

    def text(self, value: str) -> str:
        """A text is where it begins in the scratch memory, and its length; constants go first."""
        try:
            value.encode()
        except UnicodeEncodeError:
            raise CannotCompile(f"{value!r} is no text that can be stored: change it") from None
        first = sum(map(len, self._texts))
        return self._texts.setdefault(value, str(first << 32 | len(value)))

    def of_member(self, code: str, enum: type[Enum], what: str) -> Value:
        """`mode.value` or `mode.name`, from a table."""
        if (enum, what) not in self._members:
            values = [getattr(member, what) for member in enum]
            kinds = {type(each) for each in values}
            if kinds == {str}:
                kind, codes = TEXT, [self.text(each) for each in values]
            elif kinds == {int} and all(-(2**63) <= each < 2**63 for each in values):
                kind, codes = INT, list(map(repr, values))
            elif kinds == {float}:
                kind, codes = FLOAT, [f"float({str(each)!r})" for each in values]
            else:
                raise CannotCompile(
                    f"the values of {enum.__name__} are not all int, all float or all str: use if"
                )
            self._members[enum, what] = (f"V{len(self._members)}", kind, codes)
        name, kind, _ = self._members[enum, what]
        return Value(f"{name}[{code}]", kind)

    def helper(self, function: FunctionType, arguments: Sequence[Meaning], line: int) -> Function:
        """A function of the user for such arguments, lowered when it is first called."""
        key = (function, tuple(arguments))
        if key not in self._functions:
            self._functions[key] = None
            try:
                lowered = Function(self, function, f"f{len(self._functions)}", arguments)
                self._lowered.append(lowered.lower())
            except CannotCompile as error:
                raise error.inside(function) from None
            self._functions[key] = lowered
        found = self._functions[key]
        if found is None:
            raise CannotCompile(f"{function.__name__} calls itself: write a loop", line)
        return found

    def output(self, way: str, cls: type) -> str:
        for number, each in enumerate(self.outputs):
            if (each.way, each.cls) == (way, cls):
                return f"{way}_{number}"
        if len(self.outputs) == OUTPUTS_MAX:
            raise CannotCompile(
                f"more than {OUTPUTS_MAX} classes of actions, messages and timers: merge some"
            )
        self.outputs.append(Output(way, cls, self.slots(cls)))
        return f"{way}_{len(self.outputs) - 1}"

    def reaches(self, agent: str) -> bool:
        return self._agents is None or agent in self._agents

    def destination(self, agent: type) -> int:
        if agent not in self.destinations:
            if len(self.destinations) == CLASSES_MAX:
                raise CannotCompile(
                    f"messages to more than {CLASSES_MAX} classes of agents: merge some"
                )
            self.destinations.append(agent)
        return self.destinations.index(agent)

    def timer(self, name: str) -> int:
        for number, each in enumerate(self.timers):
            if each.name == name:
                return number
        self.timers.append(TimerSlots(name))
        return len(self.timers) - 1

    def arming(self, name: str, cls: type) -> str:
        number = self.timer(name)
        classes = self.timers[number].classes
        if cls not in classes:
            self.slots(cls)
            classes.append(cls)
        return f"timer_{number}_{classes.index(cls)}"

    # What the module is made of.

    @property
    def functions(self) -> list[list[str]]:
        return self._lowered

    @property
    def tables(self) -> list[str]:
        """`V0 = np.array([…])`, the values of enums."""
        dtypes = {INT: "np.int64", TEXT: "np.int64", FLOAT: "np.float64"}
        return [
            f"{name} = np.array([{', '.join(codes)}], {dtypes[kind]})"
            for name, kind, codes in self._members.values()
        ]
