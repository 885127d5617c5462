"""What a handler does with its context: outputs go to buffers of records, one per class and way.

Lines, calls and answers to questions are left to the interpreter: an event that needs one is given
up here and folded there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

from holdfast.model.compiling.kinds import BOOL, FLOAT, INT, NOTHING, CannotCompile, Kind, Part
from holdfast.model.compiling.values import Bound, Ctx, Dice, Meaning, Thing, Value, shown

if TYPE_CHECKING:
    from holdfast.model.compiling.functions import Function

_INTERPRETED = ("call",)
_DONE = Value("", NOTHING)


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
            return Value("key_text(C, i)", Kind("text"))
        if name == "random":
            return Dice()
        if name in ("emit", "send", "after", "at", "every", "cancel", "new_id", "reply", "call"):
            return Bound(Ctx(), name)
        if name == "log":
            return Thing(_LOG)
        raise CannotCompile(f"ctx.{name} cannot be compiled", getattr(node, "lineno", 0))

    def call(self, name: str, node: ast.Call) -> Value:
        if name == "new_id":
            self.program.uses_identity = True
            return Value("new_id(S, i, C)", Kind("text"))
        if name == "emit":
            return self._emit(self._arguments(node, ("action",)), node)
        if name == "send":
            return self._send(self._arguments(node, ("agent", "key", "event")), node)
        if name in ("after", "at", "every"):
            when = "time" if name == "at" else "seconds"
            return self._arm(name, self._arguments(node, (when, "event", "name"), 2), node)
        if name == "cancel":
            timer = self._timer_name(self._arguments(node, ("name",))["name"], node)
            return Value(f"cancel_{self.program.timer(timer)}(S, i)", BOOL)
        if name == "reply":
            self._make(self._arguments(node, ("event",))["event"], "event", node)
            self.function.say("if C[0][6] != 0:")
            self.function.say("    raise Unusual")
            return _DONE
        self.function.say("raise Unusual")  # ctx.call
        return _DONE

    def _arguments(
        self, node: ast.Call, names: tuple[str, ...], least: int | None = None
    ) -> dict[str, ast.expr]:
        given = dict(zip(names, node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg in names}
        missing = names[: len(names) if least is None else least]
        count = len(node.args) + len(node.keywords)
        if len(given) != count or any(name not in given for name in missing):
            raise CannotCompile(f"this takes ({', '.join(names)})", node.lineno)
        return given

    # Outputs.

    def _emit(self, given: dict[str, ast.expr], node: ast.Call) -> Value:
        cls, codes = self._make(given["action"], "action", node)
        name = self.program.output("emit", cls)
        self.function.say(f"{name}(S, i, C{''.join(f', {each}' for each in codes)})")
        return _DONE

    def _send(self, given: dict[str, ast.expr], node: ast.Call) -> Value:
        agent = self.function.expressions.meaning(given["agent"])
        if not isinstance(agent, Thing) or getattr(agent.object, "__holdfast__", None) is None:
            raise CannotCompile(f"{shown(agent)} is no agent: name its class", node.lineno)
        key = self.function.expressions.value(given["key"])
        if key.kind.name != "text":
            raise CannotCompile(f"a key that is {key.kind} cannot be compiled", node.lineno)
        kept = self._kept(key.code)
        cls, codes = self._make(given["event"], "event", node)
        name = self.program.output("send", cls)
        to = self.program.destination(agent.object)
        self.function.say(f"{name}(S, i, C, {to}, {kept}{''.join(f', {each}' for each in codes)})")
        return _DONE

    def _arm(self, way: str, given: dict[str, ast.expr], node: ast.Call) -> Value:
        from holdfast.model.compiling.expressions import as_float

        when = self.function.expressions.value(given["time" if way == "at" else "seconds"])
        if not when.kind.numeric:
            raise CannotCompile(f"a time that is {when.kind}", node.lineno)
        seconds = self._kept(as_float(when))
        cls, codes = self._make(given["event"], "event", node)
        timer = self._timer_name(given["name"], node) if "name" in given else None
        if timer is None:
            name = self.program.output("arm", cls)
        else:
            name = self.program.arming(timer, cls)
        kind = {"after": 0, "at": 1, "every": 2}[way]
        rest = "".join(f", {each}" for each in codes)
        self.function.say(f"{name}(S, i, C, {kind}, {seconds}{rest})")
        return _DONE

    def _timer_name(self, node: ast.expr, call: ast.Call) -> str | None:
        found = self.function.expressions.meaning(node)
        value = found.object if isinstance(found, Thing) else getattr(found, "constant", None)
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if isinstance(value, str):
            return value
        raise CannotCompile(
            "the name of a timer has to be a constant here: write it as a string", call.lineno
        )

    def _make(self, node: ast.expr, what: str, call: ast.Call) -> tuple[type, list[str]]:
        """The class that is made there, and the code of every field, in order."""
        if not isinstance(node, ast.Call):
            raise CannotCompile(f"make the {what} inside the call, as in `Land()`", call.lineno)
        found = self.function.expressions.meaning(node.func)
        cls = found.object if isinstance(found, Thing) else None
        definition = getattr(cls, "__holdfast__", None)
        if not isinstance(cls, type) or definition is None or definition.kind != what:
            raise CannotCompile(f"{shown(found)} is no {what} class", call.lineno)
        slots = self.program.parts(cls)
        given = dict(zip([slot.name for slot in slots], node.args, strict=False))
        given |= {str(each.arg): each.value for each in node.keywords}
        if len(given) != len(node.args) + len(node.keywords) or set(given) - {
            slot.name for slot in slots
        }:
            raise CannotCompile(f"these are not the fields of {cls.__name__}", node.lineno)
        evaluated: dict[str, str] = {}
        by_name = {slot.name: slot for slot in slots}
        for name, each in given.items():
            evaluated[name] = self._argument(by_name[name], each, node)
        for field in msgspec.structs.fields(cls):
            if field.name not in evaluated:
                evaluated[field.name] = self._default(by_name[field.name], field, node)
        return cls, [evaluated[slot.name] for slot in slots]

    def _argument(self, slot: Part, node: ast.expr, call: ast.Call) -> str:
        found = self.function.expressions.value(node)
        if slot.kind.name == "text" and found.kind.name == "text":
            return self._kept(found.code)
        if slot.kind.name == "list":
            if found.kind.item != slot.kind.item:
                raise CannotCompile(f"{found.kind} does not fit into {slot.name}", call.lineno)
            return self._kept(f"{found.code}[: {found.count}]")
        return self._kept(self.function._fitting(found, slot.kind, call.lineno))

    def _kept(self, code: str) -> str:
        """Computed now, in the order it is written."""
        self.function._temporaries += 1
        self.function.say(f"t{self.function._temporaries} = {code}")
        return f"t{self.function._temporaries}"

    def _default(self, slot: Part, field: msgspec.structs.FieldInfo, node: ast.Call) -> str:
        from holdfast.model.compiling.values import constant

        if field.default is not msgspec.NODEFAULT:
            found = constant(field.default, self.program)
            if found is not None:
                return (
                    self.function._fitting(found, slot.kind, node.lineno)
                    if not (slot.kind.wide)
                    else found.code
                )
        raise CannotCompile(f"{slot.name} has to be given here", node.lineno)

    # Chance.

    def draw(self, name: str, values: list[Value], node: ast.Call) -> Value:
        from holdfast.model.compiling.expressions import as_float, as_int

        self.program.uses_identity = True
        if name == "random" and not values:
            return Value("draw(S, i, C)", FLOAT)
        if (
            name in ("uniform", "gauss")
            and len(values) == 2
            and all(v.kind.numeric for v in values)
        ):
            return Value(f"draw_{name}(S, i, C, {', '.join(map(as_float, values))})", FLOAT)
        if name == "randint" and len(values) == 2 and FLOAT not in [v.kind for v in values]:
            return Value(f"draw_int(S, i, C, {', '.join(map(as_int, values))})", INT)
        raise CannotCompile(
            f"ctx.random.{name} cannot be compiled: use random, uniform, gauss or randint",
            node.lineno,
        )


_LOG = object()
