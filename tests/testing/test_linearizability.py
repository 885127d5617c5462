"""Goal: the checker says yes to every history that one order explains, and no to all others.

It is compared with brute force on thousands of small histories, right and wrong ones, and with
textbook cases by hand; right histories of a pretended server are accepted at any size.
"""

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import UsageError
from holdfast.testing import linearizability
from holdfast.testing.linearizability import Model, Operation, Reads, find_order, violation
from tests.testing.histories import (
    LOG_CALLS,
    REGISTER_CALLS,
    Items,
    Log,
    Register,
    Server,
    explained_by_brute_force,
    invented,
    served,
)
from tests.testing.textbook import BAD_ALWAYS, GOOD_ALWAYS, GOOD_FOR_SESSIONS_ONLY, Row, by_hand

READS: list[Reads] = ["committed", "session"]
SMALL = 7  # operations that brute force can take
WORLDS = [
    (Register(), REGISTER_CALLS, [0, 1, 2]),
    (Log(), [("append", "x"), ("append", "y")], [(), ("x",), ("y",), ("x", "y"), ("y", "x")]),
]


def agrees(history: list[Operation], model: Model, reads: Reads) -> bool:
    """Both say the same, and an order that is found is one. What they said."""
    expected = explained_by_brute_force(history, model, reads)
    order = find_order(history, model, reads=reads)
    assert (order is not None) == expected
    assert (violation(history, model, reads=reads) is None) == expected
    if order is not None:
        assert {o.name for o in order} >= {o.name for o in history if o.returned is not None}
        assert all(o.kind != "state" or o.returned is not None for o in order)
        state = model.initial
        for operation in order:
            state, result = model.apply(state, operation.call)
            assert (
                operation.returned is None or operation.kind == "send" or result == operation.result
            )
    return expected


# Against brute force.


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize(("model", "calls", "values"), WORLDS, ids=["register", "log"])
@settings(max_examples=150)
@given(data=st.data())
def test_invented_histories(
    model: Model, calls: list[object], values: list[object], reads: Reads, data: st.DataObject
) -> None:
    agrees(data.draw(invented(values, calls)), model, reads)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize(
    ("model", "calls"), [(Register(), REGISTER_CALLS), (Log(), LOG_CALLS)], ids=["register", "log"]
)
@settings(max_examples=120)
@given(data=st.data())
def test_right_histories_with_one_thing_wrong(
    model: Model, calls: list[object], reads: Reads, data: st.DataObject
) -> None:
    history = data.draw(served(model, calls, steps=40))[:SMALL]
    known = {o.name for o in history}
    assume(len(history) >= 2 and all(known.issuperset(o.after) for o in history))
    agrees(data.draw(changed(history)), model, reads)


CHANGES = ["swap results", "stale", "reorder", "duplicate", "lose", "unknown"]


@st.composite
def changed(draw: st.DrawFn, history: list[Operation]) -> list[Operation]:
    """One thing is not as it was: a result, a moment, a duplicate, a loss, an outcome."""
    at, other = draw(st.permutations(range(len(history))))[:2]
    victim, donor = history[at], history[other]
    how = draw(st.sampled_from(CHANGES))
    rest = [o for o in history if o is not victim]
    if how == "swap results":
        others = [o for o in rest if o is not donor]
        return [
            *others,
            replace(victim, result=donor.result),
            replace(donor, result=victim.result),
        ]
    if how == "stale":
        return [*rest, replace(victim, result=donor.result)]
    if how == "duplicate":
        return [*history, replace(victim, name="copy", after=())]
    if victim.returned is None or victim.after or any(victim.name in o.after for o in history):
        return history
    if how == "reorder":
        shift = draw(st.integers(-12, 12))
        return [
            *rest,
            replace(victim, invoked=victim.invoked + shift, returned=victim.returned + shift),
        ]
    return rest if how == "lose" else [*rest, replace(victim, returned=None)]


def test_brute_force_meets_right_and_wrong_histories() -> None:
    """Otherwise the tests above would agree about nothing."""
    said = {reads: {True: 0, False: 0} for reads in READS}

    @settings(max_examples=400, database=None, derandomize=True)
    @given(invented([0, 1, 2], REGISTER_CALLS))
    def count(history: list[Operation]) -> None:
        for reads in READS:
            said[reads][agrees(history, Register(), reads)] += 1

    count()
    assert all(number >= 40 for both in said.values() for number in both.values()), said


# Right histories.


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize(
    ("model", "calls"), [(Register(), REGISTER_CALLS), (Log(), LOG_CALLS)], ids=["register", "log"]
)
@settings(max_examples=50)
@given(data=st.data())
def test_what_a_right_server_does_is_accepted(
    model: Model, calls: list[object], reads: Reads, data: st.DataObject
) -> None:
    assert violation(data.draw(served(model, calls)), model, reads=reads) is None


def long_history(seed: int, clients: int, operations: int) -> list[Operation]:
    chance = random.Random(seed)
    server = Server(Log(), LOG_CALLS)
    while len(server.history) < operations:
        if chance.random() < 0.2:
            server.fold()
        else:
            server.step(chance.randrange(clients), chance.choice([0, *[*range(1, 18)] * 3]))
    return list(server.history.values())


@pytest.mark.parametrize("reads", READS)
def test_hundreds_of_operations_with_many_unknown_outcomes_stay_easy(
    monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    monkeypatch.setattr(linearizability, "CONFIGURATIONS_MAX", 5_000)
    for seed in range(3):
        history = long_history(seed, 8, 600)
        assert sum(o.returned is None and o.kind != "state" for o in history) >= 20
        assert violation(history, Log(), reads=reads) is None


def test_unknown_outcomes_do_not_multiply_behind_a_wrong_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two sends at once are tried in the wrong order first; only an answer after both tells."""
    monkeypatch.setattr(linearizability, "CONFIGURATIONS_MAX", 100)
    rows: list[Row] = [("ask", f"u{n}", ("append", n), 0, None, None) for n in range(12)]
    rows += [
        ("send", "a", ("append", "a"), 1, 2, None),
        ("send", "b", ("append", "b"), 1, 3, None),
        ("ask", "c", ("get",), 4, 5, ("b", "a")),
    ]
    assert violation(by_hand(rows), Log()) is None


@pytest.mark.parametrize("reads", READS)
def test_one_wrong_answer_among_hundreds_is_found(reads: Reads) -> None:
    history = long_history(7, 8, 600)
    chance = random.Random(7)
    appended = [
        o for o in history if o.kind == "ask" and o.returned is not None and o.call != ("get",)
    ]
    for victim in chance.sample(appended[len(appended) // 2 :], 3):
        assert isinstance(victim.result, tuple)
        false = replace(victim, result=victim.result[:-1])
        wrong = [false if o is victim else o for o in history]
        found = violation(wrong, Log(), reads=reads)
        assert found is not None
        assert victim.name in found


# Textbook cases.


@pytest.mark.parametrize("name", [*GOOD_ALWAYS, *GOOD_FOR_SESSIONS_ONLY, *BAD_ALWAYS])
@pytest.mark.parametrize("reads", READS)
def test_textbook_cases(name: str, reads: Reads) -> None:
    cases = {**GOOD_ALWAYS, **GOOD_FOR_SESSIONS_ONLY, **BAD_ALWAYS}
    good = name in GOOD_ALWAYS or (name in GOOD_FOR_SESSIONS_ONLY and reads == "session")
    assert agrees(by_hand(cases[name]), Register(), reads) == good


class Queue(Model[Items]):
    initial: Items = ()

    def apply(self, state: Items, call: object) -> tuple[Items, object]:
        match call:
            case ("put", item):
                return (*state, item), "ok"
            case ("take",):
                return state[1:], state[0] if state else None
        raise AssertionError(call)


@pytest.mark.parametrize(
    ("second_put_from", "taken", "good"),
    [(0, ["y", "x"], True), (0, ["x", "y"], True), (2, ["x", "y"], True), (2, ["y", "x"], False)],
)
def test_herlihy_and_wing_queues(second_put_from: int, taken: list[str], good: bool) -> None:
    """Puts that overlap may be taken in either order, others in theirs."""
    history = by_hand(
        [
            ("ask", "a", ("put", "x"), 0, 1, "ok"),
            ("ask", "b", ("put", "y"), second_put_from, 3, "ok"),
            ("ask", "a", ("take",), 4, 5, taken[0]),
            ("ask", "b", ("take",), 6, 7, taken[1]),
        ]
    )
    assert agrees(history, Queue(), "committed") == good


# What a person gets to read.


def test_the_explanation_is_the_smallest_prefix_with_what_could_be() -> None:
    history = by_hand(
        [
            ("ask", "a", ("set", 1), 0, None, None),
            ("send", "b", ("set", 2), 1.5, None, None),
            ("ask", "a", ("get",), 2, 3, 1),
            ("ask", "a", ("get",), 4, 5, 0),
            ("ask", "a", ("get",), 6, 7, 9),
        ]
    )
    assert violation(history, Register()) == (
        "no order explains the first 2 of 5 operations; without the last of them to return there "
        "is one:\n"
        "  o0 [0.000000 to never] a: ask ('set', 1) -> …\n"
        "  o2 [2.000000 to 3.000000] a: ask ('get',) -> 1\n"
        "which leads to 1. But then returned\n"
        "  o3 [4.000000 to 5.000000] a: ask ('get',) -> 0\n"
        "and these may have taken effect by then, or not:\n"
        "  o1 [1.500000 to never] b: send ('set', 2) -> …"
    )


@settings(max_examples=60)
@given(history=invented([0, 1, 2], REGISTER_CALLS))
def test_the_prefix_is_the_smallest(history: list[Operation]) -> None:
    found = violation(history, Register())
    assume(found is not None)
    assert found is not None
    wrong = [
        end
        for end in sorted({o.returned for o in history if o.returned is not None})
        if not explained_by_brute_force(_seen_until(history, end), Register(), "committed")
    ]
    count = sum(o.returned is not None and o.returned <= wrong[0] for o in history)
    assert found.startswith(f"no order explains the first {count} of {len(history)} operations")


def _seen_until(history: list[Operation], end: float) -> list[Operation]:
    return [
        o if o.returned is not None and o.returned <= end else replace(o, returned=None)
        for o in history
        if o.invoked <= end
    ]


def test_giving_up_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizability, "CONFIGURATIONS_MAX", 3)
    found = violation(long_history(1, 8, 60), Log())
    assert found is not None
    assert found.startswith("undecided after 3 configurations of 60 operations")


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([("ask", "a", ("get",), 2, 1, 0)], "returned before it was called"),
        ([("state", "a", ("get",), 0, 1, 0, ("o7",))], "had returned before it was called"),
        (
            [("ask", "a", ("get",), 0, 1, 0), ("ask", "a", ("get",), 2, 3, 0, ("o0",))],
            "only a state",
        ),
    ],
)
def test_histories_that_cannot_be_are_refused(rows: list[Row], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        violation(by_hand(rows), Register())


def test_two_operations_of_one_name_are_refused() -> None:
    operation = Operation("o", "a", "ask", ("get",), 0, 1, 0)
    with pytest.raises(UsageError, match="two operations of one name"):
        violation([operation, operation], Register())
