"""Goal: an event that fails leaves nothing behind but its dead letter, in either fold, whatever it
did before: nested state, actions, messages, timers, random numbers, ids, logs."""

from __future__ import annotations

import re
import sys

import pytest

from holdfast import Action, Agent, Context, Event, on
from holdfast.model.context import TIMERS_PER_AGENT_MAX
from holdfast.model.fleet import FleetModel
from tests.stepping.rig import Bench, codebook_of
from tests.stepping.scripted import FLEET, Do, Plain

EVERYTHING = [
    "add",
    "push",
    "take",
    "emit:x",
    "send:p-9",
    "draw",
    "log",
    "night",
    "after:1",
    "named:2",
    "cancel:every",
]
FAILURES = {
    "fail": r"^ValueError: as asked, at \d+$",
    "exit": r"^SystemExit: 3$",
    "misfit": r"^UsageError: Plain: field 'number' cannot be 'not a number' \(.*`int`",
    "wrongaction": r"^UsageError: Counted: field 'number' cannot be 'many'",
    "wrongmessage": r"^UsageError: Told: field 'label' cannot be 5",
    "wrongtimer": r"^UsageError: Rang: field 'words' cannot be 'add'",
    "wrongkey": r"^UsageError: 'no key!' cannot be a key",
    "nonsense": r"^AttributeError: .*do_nonsense",
}


def prepared() -> Bench:
    """An agent with nested state, two timers and some versions behind it."""
    made = Bench(FLEET, codebook_of(FLEET))
    made.send([(Plain, "p-1", Do(["push", "push", "add", "draw"]))], 10.0)
    made.send([(Plain, "p-1", Do(["named:50", "every:60"]))], 11.0)
    return made


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("company", [0, 3])
def test_a_failed_event_leaves_only_a_letter(failure: str, company: int) -> None:
    """Compared with the same agent that never met the event; alone and among good ones."""
    calm, hit = prepared(), prepared()
    good = [(Plain, f"p-{n + 2}", Do(EVERYTHING)) for n in range(company)]
    after = (Plain, "p-1", Do(["draw", "emit:after", "push"]))
    calm.send([*good, after], 12.0)
    hit.send([*good, (Plain, "p-1", Do([*EVERYTHING, failure], [7])), after], 12.0)
    calm.step([], clock=200.0)
    hit.step([], clock=200.0)
    want, got = calm.everything(), hit.everything()
    for what in ("states", "actions", "messages", "logs", "answers"):
        assert got[what] == want[what]
    # The journal counts inbox positions, of which the failed event has one.
    assert [row[1:] for row in hit.journal] == [row[1:] for row in calm.journal]
    assert len(calm.journal) == 2 + company * 2
    assert calm.letters == []
    [letter] = hit.letters
    assert (letter.agent, letter.key, letter.position) == ("Plain", "p-1", 2 + company)
    event = hit.codebook.reader_of(letter.schema).row(letter.row)
    assert event == Do([*EVERYTHING, failure], [7])
    assert re.search(FAILURES[failure], letter.error)
    if failure == "fail":
        assert "in do_fail" in letter.trace


def test_an_agent_whose_first_event_fails_does_not_exist() -> None:
    made = Bench(FLEET, codebook_of(FLEET))
    made.send([(Plain, "p-1", Do(["add", "fail"]))])
    assert made.state(Plain, "p-1") is None
    assert made.reopened().state(Plain, "p-1") is None
    made.send([(Plain, "p-1", Do(["draw"]))])
    fresh = Bench(FLEET, codebook_of(FLEET))
    fresh.send([(Plain, "p-1", Do(["draw"]))])
    assert made.state(Plain, "p-1") == fresh.state(Plain, "p-1")


# ---------------------------------------------------------------- ways to fail that need care


class Try(Event):
    what: str


class Boom(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Report(Action):
    rows: list[int]


class Fragile(Agent):
    count: int = 0
    table: dict[str, list[int]] = {}

    @on
    def tried(self, event: Try, ctx: Context) -> None:
        self.count += 1
        self.table.setdefault("rows", []).append(self.count)
        getattr(self, event.what)(ctx)

    def fine(self, ctx: Context) -> None:
        ctx.emit(Report(self.table["rows"]))

    def recursion(self, ctx: Context) -> None:
        self.recursion(ctx)

    def buffer(self, ctx: Context) -> None:
        raise BufferError("of memory")

    def huge(self, ctx: Context) -> None:
        raise ValueError("x" * 10_000_000)

    def unprintable(self, ctx: Context) -> None:
        raise Boom

    def half_a_character(self, ctx: Context) -> None:
        raise ValueError("\ud83d")

    def nested(self, ctx: Context) -> None:
        self.table["rows"] = [1, "two"]  # type: ignore[list-item]

    def unknown(self, ctx: Context) -> None:
        self.table = object()  # type: ignore[assignment]

    def half_a_text(self, ctx: Context) -> None:
        self.table["\ud83d"] = []

    def big_number(self, ctx: Context) -> None:
        self.count = 2**70

    def large_action(self, ctx: Context) -> None:
        ctx.emit(Report(list(range(400_000))))

    def not_an_action(self, ctx: Context) -> None:
        ctx.emit(Try("x"))  # type: ignore[arg-type]

    def not_an_event(self, ctx: Context) -> None:
        ctx.send(Fragile, "f-1", Report([]))  # type: ignore[arg-type]

    def many_timers(self, ctx: Context) -> None:
        for number in range(TIMERS_PER_AGENT_MAX + 1):
            ctx.after(10.0, Try("fine"), name=f"t{number}")

    def odd_timers(self, ctx: Context) -> None:
        ctx.after(10.0, Try("fine"), name=5)  # type: ignore[arg-type]

    def timers_of_ours(self, ctx: Context) -> None:
        ctx.after(10.0, Try("fine"), name="~urgent")

    def never(self, ctx: Context) -> None:
        ctx.after(float("nan"), Try("fine"))

    def at_nine(self, ctx: Context) -> None:
        ctx.call(print, "hello", reply=Try)

    def stranger(self, ctx: Context) -> None:
        ctx.send(Plain, "p-1", Try("fine"))


FRAGILE = FleetModel("fragile", agents=[Fragile])
REASONS = {
    "recursion": "^RecursionError: maximum recursion depth",
    "buffer": "^BufferError: of memory$",
    "huge": "^ValueError: x+$",
    "unprintable": r"^Boom: its text cannot be made \(RuntimeError\)$",
    "half_a_character": r"^ValueError: \\ud83d$",
    "nested": "^UsageError: Fragile: field 'table' cannot be .*'two'.*`int`",
    "unknown": "^UsageError: Fragile: field 'table' cannot be <object",
    "half_a_text": "^UsageError: Fragile: field 'table'",
    "big_number": "^UsageError: Fragile: field 'count' cannot be 1180591620717411303424",
    "large_action": "^UsageError: Report of .* bytes exceeds the bound",
    "not_an_action": "^UsageError: ctx.emit takes an Action, not Try",
    "not_an_event": "^UsageError: ctx.send takes an Event, not Report",
    "many_timers": f"^UsageError: Fragile/f-1 has {TIMERS_PER_AGENT_MAX} timers, the bound",
    "odd_timers": "^UsageError: a timer named 5",
    "timers_of_ours": "^UsageError: a timer named '~urgent': .* that does not begin with ~",
    "never": "^UsageError: a timer of nan seconds",
    "at_nine": "^UsageError: ctx.call of <built-in function print>, which is no plain function",
    "stranger": "^UsageError: ctx.send to Plain, which is no agent of fleet 'fragile'",
}


def test_a_flood_of_failures_keeps_its_letters_small() -> None:
    made = Bench(FRAGILE, codebook_of(FRAGILE))
    made.send([(Fragile, "f-1", Try("buffer"))] * 1_000)
    assert len(made.letters) == 1_000
    assert "Traceback" in made.letters[0].trace
    assert re.fullmatch(r'File ".*test_undo.py", line \d+, in buffer', made.letters[-1].trace)


@pytest.mark.parametrize("what", REASONS)
def test_every_way_to_fail_is_one_letter(what: str) -> None:
    made = Bench(FRAGILE, codebook_of(FRAGILE))
    depth = sys.getrecursionlimit()
    made.send([(Fragile, "f-1", Try("fine")), (Fragile, "f-1", Try(what))], 5.0)
    made.send([(Fragile, "f-1", Try("fine"))], 6.0)
    assert sys.getrecursionlimit() == depth
    [letter] = made.letters
    assert re.search(REASONS[what], letter.error)
    assert len(letter.error) < 3_000
    assert len(letter.trace) < 10_000
    letter.error.encode("utf-8")
    letter.trace.encode("utf-8")
    state = made.state(Fragile, "f-1")
    assert isinstance(state, Fragile)
    assert (state.count, state.table) == (2, {"rows": [1, 2]})
    assert [action for _, _, action in made.actions] == [Report([1]), Report([1, 2])]
    assert made.reopened().stepper.head == made.stepper.head
