"""Goal: what older releases have stored, without contexts, is read as what has none; and what has
none is stored as they did."""

from __future__ import annotations

import msgspec

from holdfast.model.effects import Sender
from holdfast.stepping.cell import Extras, Held, pack_extras, unpack_extras, without_asks
from holdfast.stepping.commit import Call
from tests.stepping.rig import codebook_of
from tests.tracing.couriers import Order, fleet

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_calls() -> None:
    call = Call(1, "id", "Depot", "d", "route", b"", "Routed", 30.0, 2, 1.0, 5.0)
    older = msgspec.msgpack.encode(tuple(call)[:-1])
    assert msgspec.msgpack.decode(older, type=Call) == call
    traced = call._replace(trace=CONTEXT)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(traced), type=Call) == traced


def test_held_events() -> None:
    codebook = codebook_of(fleet)
    plain = Held(Order(depot="d"), 7, 5.0, Sender("Shop", "s"), 1, 7)
    traced = plain._replace(trace=CONTEXT)
    [packed] = pack_extras([Extras(held=[plain, traced])], codebook)
    assert Extras.unpack(packed, codebook).held == [plain, traced]
    rows = msgspec.msgpack.decode(packed)[1]
    assert [len(row) for row in rows] == [7, 8]
    moved = Extras.unpack(without_asks(packed), codebook).held
    assert moved == [plain._replace(ask=-1), traced._replace(ask=-1)]
    assert [row.trace for row in unpack_extras(packed).held] == ["", CONTEXT]
