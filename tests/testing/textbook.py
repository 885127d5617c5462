"""Textbook cases: histories of a register, by hand. Times are made up.

A row is kind, client, call, called at, returned at, result and, for a `state`, what it is after;
rows are named o0, o1, …
"""

from typing import Any

from holdfast.testing.linearizability import Operation
from tests.testing.histories import Kind

Row = tuple[Any, ...]

GOOD_ALWAYS: dict[str, list[Row]] = {
    "one after the other": [("ask", "a", ("set", 1), 0, 1, "ok"), ("ask", "b", ("get",), 2, 3, 1)],
    "two writes at once, in either order": [
        ("ask", "a", ("set", 1), 0, 9, "ok"),
        ("ask", "b", ("set", 2), 0, 9, "ok"),
        ("ask", "c", ("get",), 10, 11, 1),
    ],
    "a write is seen before it returns": [
        ("ask", "a", ("set", 1), 0, 9, "ok"),
        ("ask", "b", ("get",), 2, 3, 1),
    ],
    "an outcome nobody knows, seen late": [
        ("ask", "a", ("set", 1), 0, None, None),
        ("ask", "b", ("get",), 2, 3, 0),
        ("ask", "b", ("get",), 4, 5, 1),
    ],
    "an outcome nobody knows, never seen": [
        ("ask", "a", ("set", 1), 0, None, None),
        ("ask", "b", ("get",), 2, 3, 0),
    ],
    "a write that would change nothing now takes effect later": [
        ("ask", "a", ("set", 1), 0, 1, "ok"),
        ("ask", "a", ("set", 1), 2, 20, "ok"),
        ("ask", "b", ("set", 2), 2, 5, "ok"),
        ("ask", "c", ("get",), 6, 7, 2),
        ("ask", "c", ("get",), 8, 9, 1),
    ],
    "a send goes before an answer that would fit at once": [
        ("send", "a", ("set", 2), 0, 9, None),
        ("ask", "b", ("set", 1), 0, 9, "ok"),
        ("ask", "c", ("get",), 10, 11, 1),
    ],
    "of two swaps from one value, one wins": [
        ("ask", "a", ("swap", 0, 1), 0, 9, True),
        ("ask", "b", ("swap", 0, 2), 0, 9, False),
    ],
    "a send is acknowledged and not folded yet": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("state", "a", ("get",), 2, 3, 0),
    ],
    "a read is late, and its client has seen nothing newer": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("state", "b", ("get",), 2, 3, 1),
        ("state", "b", ("get",), 4, 5, 1),
    ],
}
GOOD_FOR_SESSIONS_ONLY: dict[str, list[Row]] = {
    "two readers, new before old": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("state", "b", ("get",), 2, 3, 1),
        ("state", "c", ("get",), 4, 5, 0),
    ],
    "an answered ask that another client does not see": [
        ("ask", "a", ("set", 1), 0, 1, "ok"),
        ("state", "b", ("get",), 2, 3, 0),
    ],
}
BAD_ALWAYS: dict[str, list[Row]] = {
    "a stale answer": [("ask", "a", ("set", 1), 0, 1, "ok"), ("ask", "b", ("get",), 2, 3, 0)],
    "an answer from nowhere": [("ask", "a", ("get",), 0, 1, 7)],
    "new before old while a write runs": [
        ("ask", "a", ("set", 1), 0, 9, "ok"),
        ("ask", "b", ("get",), 1, 2, 1),
        ("ask", "c", ("get",), 3, 4, 0),
    ],
    "two swaps from one value, both win": [
        ("ask", "a", ("swap", 0, 1), 0, 9, True),
        ("ask", "b", ("swap", 0, 2), 0, 9, True),
    ],
    "an acknowledged send is lost": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("ask", "b", ("get",), 2, 3, 0),
    ],
    "a write that happens again": [
        ("ask", "a", ("set", 1), 0, 1, "ok"),
        ("ask", "a", ("set", 2), 2, 3, "ok"),
        ("ask", "b", ("get",), 4, 5, 1),
    ],
    "an outcome nobody knows, seen and then not": [
        ("ask", "a", ("set", 1), 0, None, None),
        ("ask", "b", ("get",), 2, 3, 1),
        ("ask", "b", ("get",), 4, 5, 0),
    ],
    "an outcome nobody knows, seen before it was called": [
        ("ask", "b", ("get",), 0, 1, 1),
        ("ask", "a", ("set", 1), 2, None, None),
    ],
    "an outcome nobody knows, twice": [
        ("ask", "a", ("set", 1), 0, None, None),
        ("ask", "b", ("swap", 1, 2), 2, 3, True),
        ("ask", "b", ("get",), 4, 5, 1),
    ],
    "a receipt that is not honoured": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("state", "b", ("get",), 2, 3, 0, ("o0",)),
    ],
    "a receipt without what came before it": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("send", "a", ("swap", 1, 2), 2, 3, None),
        ("state", "b", ("get",), 4, 5, 1, ("o1",)),
    ],
    "a reader goes back": [
        ("send", "a", ("set", 1), 0, 1, None),
        ("state", "b", ("get",), 2, 3, 1),
        ("state", "b", ("get",), 4, 5, 0),
    ],
    "a client does not see its own answered ask": [
        ("ask", "a", ("set", 1), 0, 1, "ok"),
        ("state", "a", ("get",), 2, 3, 0),
    ],
    "a read from the future": [
        ("state", "b", ("get",), 0, 1, 1),
        ("send", "a", ("set", 1), 2, 3, None),
    ],
    "what was read is undone": [
        ("send", "a", ("set", 1), 0, None, None),
        ("state", "b", ("get",), 2, 3, 1),
        ("ask", "c", ("get",), 4, 5, 0),
    ],
}


def by_hand(rows: list[Row]) -> list[Operation]:
    history = []
    for number, (kind, client, call, invoked, returned, result, *after) in enumerate(rows):
        named: tuple[str, ...] = after[0] if after else ()
        made: Kind = kind
        operation = Operation(f"o{number}", client, made, call, invoked, returned, result, named)
        history.append(operation)
    return history
