"""Messages of a recorded inbox, as a replay compares them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import msgspec

from holdfast.engine.port import View
from holdfast.model.keys import Layout
from holdfast.runtime.replaying.recorded import MessageFeed
from holdfast.runtime.replaying.replay import Behind
from holdfast.stepping.frame import Frame, const, floats, integers, opaque, rows
from holdfast.stepping.inputs import StoredFrame


class Inbox:
    def __init__(self, frame: Frame) -> None:
        self._stored = StoredFrame(0, frame.count, 1.0, frame.encode())

    def inbox_first(self) -> int:
        return 0

    def frames(self, position: int, most: int) -> list[StoredFrame]:
        return [self._stored] if position == 0 else []


class Left(Inbox):
    """It began with position 0 a moment ago."""

    def __init__(self) -> None:
        columns = {
            "origin": const("message"),
            "agent": const("A"),
            "key": rows(["k-1"]),
            "from_agent": const("A"),
            "from_key": rows(["k-2"]),
            "hops": integers([1]),
            "event_time": floats([1.0]),
            "schema": const(7),
            "rows.7": opaque(b"\x91\x90"),
        }
        super().__init__(Frame(1, columns))
        self._left = replace(self._stored, first=5)

    def frames(self, position: int, most: int) -> list[StoredFrame]:
        return [self._left] if position < 6 else []


def test_a_message_of_many_columns_is_found() -> None:
    """A kernel's messages have one per field: what they are is said far behind the names."""
    names = [f"measured_value_{n:02}" for n in range(40)]
    columns = {
        "origin": const("message"),
        "agent": const("A"),
        "key": rows(["k-1"]),
        "from_agent": const("A"),
        "from_key": rows(["k-2"]),
        "hops": integers([1]),
        "event_time": floats([1.0]),
        "schema": const(7),
        "cols.7": opaque(msgspec.msgpack.encode(names)),
        **{f"cols.7.{name}": floats([1.0]) for name in names},
    }
    layout = Layout.even(1)
    view = cast(View, Inbox(Frame(1, columns)))
    feed = MessageFeed(view, layout, layout.partition_of("k-2"), Behind())
    assert feed.pop() is not None


def test_retention_that_goes_past_it_ends_what_is_compared() -> None:
    """It is no difference: what it has unlinked meanwhile was there."""
    view = cast(View, Left())
    feed = MessageFeed(view, Layout.even(1), 0, Behind())
    assert feed.whole
    assert feed.pop() is None
