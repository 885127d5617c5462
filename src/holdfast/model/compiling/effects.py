"""What a handler does with its context: outputs go to buffers of records, one per class and way.

Log lines, calls and answers to questions are left to the interpreter: an event that needs one is
given up here and folded there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, NOTHING, TEXT, CannotCompile, Part
from holdfast.model.compiling.values import (
    Bound,
    Ctx,
    Dice,
    Log,
    Meaning,
    Thing,
    Value,
    as_float,
    as_int,
    constant,
    shown,
)
from holdfast.model.context import TIMER_NAME_LENGTH_MAX

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_DONE = Value("", NOTHING)
_WAYS = {"after": 0, "at": 1, "every": 2}  # as `due_at` of the kernels has them
_METHODS = ("emit", "send", "after", "at", "every", "cancel", "new_id", "reply", "call")


class Effects:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.program = function.program

    def attribute(self, name: str, node: ast.AST) -> Meaning:
        if name == "now":
            return Value("C[1][0]", FLOAT)
        if name == "event_time":
            return Value("C[1][1]", FLOAT)
        if name == "key":
            return Value(self.function.keep("key_text(C, i)"), TEXT)
        if name == "random":
            return Dice()
        if name == "log":
            return Log()
        if name in _METHODS:
            return Bound(Ctx(), name)
        way = ": let the event carry who sent it" if name == "sender" else ": leave it out"
        raise CannotCompile(f"ctx.{name} cannot be compiled{way}", getattr(node, "lineno", 0))

    def call(self, name: str, node: ast.Call) -> Value:
        function = self.function
        function.acts = True
        if name == "new_id":
            return Value(function.keep("new_id(S, i, C)"), TEXT)
        if name == "emit":
            cls, codes = self._make(self._arguments(node, "action")["action"], "action")
            function.say(_called(self.program.output("emit", cls), codes))
        elif name == "send":
            self._send(self._arguments(node, "agent", "key", "event"))
        elif name in _WAYS:
            when = "time" if name == "at" else "seconds"
            self._arm(_WAYS[name], when, self._arguments(node, when, "event", "name", least=2))
        elif name == "cancel":
            timer = self._timer_name(self._arguments(node, "name")["name"])
            if timer is None:
                raise CannotCompile("ctx.cancel takes the name of a timer")
            return Value(function.keep(f"cancel_{self.program.timer(timer)}(S, i)"), BOOL)
        elif name == "reply":
            self._make(self._arguments(node, "event")["event"], "event")
            function.say("if C[0][6] != 0:")
            function.say("    raise Unusual")
        else:  # ctx.call
            function.say("raise Unusual")
            return Value(self.program.text(""), TEXT)
        return _DONE

    def _arguments(
        self, node: ast.Call, *names: str, least: int | None = None
    ) -> dict[str, ast.expr]:
        given = dict(zip(names, node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg in names}
        count = len(node.args) + len(node.keywords)
        if len(given) != count or any(name not in given for name in names[:least]):
            raise CannotCompile(f"this takes ({', '.join(names)})")
        return given

    # Outputs.

    def _send(self, given: dict[str, ast.expr]) -> None:
        function = self.function
        if list(given) != ["agent", "key", "event"]:
            raise CannotCompile("write the agent first, then the key, then the event")
        agent = function.expressions.meaning(given["agent"])
        definition = (
            getattr(agent.object, "__holdfast__", None) if isinstance(agent, Thing) else None
        )
        if definition is None or definition.kind != "state":
            raise CannotCompile(f"{shown(agent)} is no agent: name its class")
        key = function.expressions.value(given["key"])
        if key.kind != TEXT:
            raise CannotCompile(f"a key that is {key.kind} cannot be compiled: make it a str")
        kept = function.keep(key.code)
        cls, codes = self._make(given["event"], "event")
        if not self.program.reaches(definition.name):
            function.say("raise Unusual")
        assert isinstance(agent, Thing)
        assert isinstance(agent.object, type)
        to = str(self.program.destination(agent.object))
        function.say(_called(self.program.output("send", cls), [to, kept, *codes]))

    def _arm(self, way: int, when: str, given: dict[str, ast.expr]) -> None:
        function = self.function
        if list(given)[:2] != [when, "event"]:
            raise CannotCompile(f"write {when} first, then the event, then name=…")
        seconds = function.expressions.value(given[when])
        if not seconds.kind.numeric:
            raise CannotCompile(f"a time that is {seconds.kind} cannot be compiled: use a float")
        kept = function.keep(as_float(seconds))
        cls, codes = self._make(given["event"], "event")
        timer = self._timer_name(given["name"]) if "name" in given else None
        if timer is None:
            name = self.program.output("arm", cls)
        else:
            name = self.program.arming(timer, cls)
        function.say(_called(name, [str(way), kept, *codes]))

    def _timer_name(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        found = self.function.expressions.meaning(node)
        value = found.object if isinstance(found, Thing) else getattr(found, "constant", None)
        if type(value) is not str:
            raise CannotCompile("the name of a timer has to be a constant here: write a string")
        if value.startswith("~") or len(value) > TIMER_NAME_LENGTH_MAX:
            raise CannotCompile(
                f"the name of a timer begins with no ~ and has at most {TIMER_NAME_LENGTH_MAX} "
                f"characters: rename it"
            )
        return value

    def _make(self, node: ast.expr, what: str) -> tuple[type, list[str]]:
        """The class that is made there, and the code of every field, in order."""
        if not isinstance(node, ast.Call):
            raise CannotCompile(f"make the {what} inside the call, as in `{what.title()}Class()`")
        found = self.function.expressions.meaning(node.func)
        cls = found.object if isinstance(found, Thing) else None
        definition = getattr(cls, "__holdfast__", None)
        if not isinstance(cls, type) or definition is None or definition.kind != what:
            raise CannotCompile(f"{shown(found)} is no {what} class: make the {what} here")
        parts = {part.name: part for part in self.program.parts(cls)}
        given = dict(zip(parts, node.args, strict=False))
        given |= {str(each.arg): each.value for each in node.keywords}
        if len(given) != len(node.args) + len(node.keywords) or given.keys() - parts.keys():
            raise CannotCompile(f"{cls.__name__} has the fields {', '.join(parts) or 'none'}")
        made = {name: self._argument(parts[name], each) for name, each in given.items()}
        for field in msgspec.structs.fields(cls):
            if field.name not in made:
                made[field.name] = self._default(parts[field.name], field)
        return cls, [code for name in parts for code in made[name]]

    def _argument(self, part: Part, node: ast.expr) -> list[str]:
        """A list is handed over as it is when the output is made, as in Python."""
        function = self.function
        found = function.expressions.value(node)
        if part.kind.item is not None:
            if found.kind.item != part.kind.item:
                raise CannotCompile(f"{found.kind} is given where {part.name} is {part.kind}")
            return [found.code, found.count]
        return [function.keep(self._fitting(found, part))]

    def _fitting(self, value: Value, part: Part) -> str:
        if part.kind.name == "text" and value.kind == TEXT:
            return value.code
        if part.kind == FLOAT and value.kind == INT:
            return as_float(value)  # whoever gets it reads a float, in the interpreter too
        return self.function.statements.assignments.fitting(value, part.kind, part.name)

    def _default(self, part: Part, field: msgspec.structs.FieldInfo) -> list[str]:
        if part.kind.item is not None and field.default_factory is list:
            return ["NO_FLOATS" if part.kind.item == FLOAT else "NO_INTS", "0"]
        found = None
        if field.default is not msgspec.NODEFAULT:
            found = constant(field.default, self.program)
        if found is None:
            raise CannotCompile(f"{part.name} has no constant default: give it here")
        return [self._fitting(found, part)]

    # Chance.

    def draw(self, name: str, values: list[Value]) -> Value:
        function = self.function
        function.acts = True
        floats = all(each.kind.numeric for each in values)
        if name == "random" and not values:
            return Value(function.keep("draw(S, i, C)"), FLOAT)
        if name == "uniform" and len(values) == 2 and floats:
            given = ", ".join(map(as_float, values))
            return Value(function.keep(f"draw_uniform(S, i, C, {given})"), FLOAT)
        if name == "gauss" and len(values) <= 2 and floats:
            given = ", ".join([*map(as_float, values), *("0.0", "1.0")[len(values) :]])
            return Value(function.keep(f"draw_gauss(S, i, C, {given})"), FLOAT)
        if name == "randint" and [each.kind for each in values] == [INT, INT]:
            given = ", ".join(map(as_int, values))
            return Value(function.keep(f"draw_int(S, i, C, {given})"), INT)
        raise CannotCompile(
            f"ctx.random.{name} cannot be compiled like this: use random(), uniform(a, b), "
            f"gauss(mu, sigma) or randint(a, b)"
        )


def _called(name: str, codes: list[str]) -> str:
    return f"{name}({', '.join(['S', 'i', 'C', *codes])})"
