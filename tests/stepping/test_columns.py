"""Goal: events in columns are the same events as in rows: for every kind of field, as arrays, as
objects and as bytes, with numpy and without. Damage in such columns is named, and never a row."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Event
from holdfast.errors import DamagedData
from holdfast.model.layout import NoLayout, Slot
from holdfast.stepping.arrays import arrays_of
from holdfast.stepping.columns import (
    columns_of,
    field_columns,
    integers_column,
    key_codes,
    names_column,
    payload_columns,
    read_fields,
    rising_column,
    schema_codes,
)
from holdfast.stepping.frame import Column, Frame, codes, const, opaque, rows
from holdfast.stepping.kernels import PLAIN, compiled, kernels
from holdfast.stepping.names import Names
from holdfast.stepping.rows import payload, raw_payload, read_payload, read_raw_payload, select
from holdfast.stepping.splitting import split
from tests.stepping.columns import (
    FLEET,
    FLOATS,
    INTEGERS,
    Everything,
    Mode,
    Nothing,
    Position,
    rows_of,
    slots,
)
from tests.stepping.rig import codebook_of

CODEBOOK = codebook_of(FLEET)
pack = msgspec.msgpack.Encoder().encode


def same(one: object, other: object) -> bool:
    """Equal, with NaN equal to itself and -0.0 not to 0.0."""
    return pack(one) == pack(other)


def columnar(event: type[Event], values: list[list[object]]) -> Frame:
    """The rows as a frame of columns, by way of arrays."""
    schema_id = CODEBOOK.id_of(event)
    by_field = [[row[i] for row in values] for i in range(len(slots(event)))]
    arrays = arrays_of(slots(event), by_field)
    columns = payload_columns(schema_id, slots(event), arrays)
    return Frame(len(values), {"schema": const(schema_id), **columns})


def in_rows(event: type[Event], values: list[list[object]]) -> Frame:
    schema_id = CODEBOOK.id_of(event)
    packed = raw_payload([schema_id] * len(values), [pack(row) for row in values])
    return Frame(len(values), packed or {"schema": const(schema_id)})


@settings(max_examples=150, deadline=None)
@given(rows_of(Everything))
def test_columns_are_read_as_the_rows_they_were_made_from(values: list[list[object]]) -> None:
    frame = Frame.decode(columnar(Everything, values).encode())
    schema_id = CODEBOOK.id_of(Everything)
    raw = read_raw_payload(frame)
    assert [each for each, _ in raw] == [schema_id] * len(values)
    assert [row for _, row in raw] == [pack(row) for row in values]
    objects = read_payload(frame, CODEBOOK)
    assert [pack(each) for each in objects] == [pack(row) for row in values]


@settings(max_examples=150, deadline=None)
@given(rows_of(Everything))
def test_arrays_of_columns_and_of_rows_are_equal(values: list[list[object]]) -> None:
    schema_id = CODEBOOK.id_of(Everything)
    if not values:
        return
    one = columns_of(columnar(Everything, values), schema_id, slots(Everything))
    other = columns_of(in_rows(Everything, values), schema_id, slots(Everything))
    for slot, left, right in zip(slots(Everything), one, other, strict=True):
        assert isinstance(left, tuple) is slot.wide
        pairs = zip(left, right, strict=True) if slot.wide else [(left, right)]
        for a, b in cast("list[tuple[numpy.ndarray, numpy.ndarray]]", list(pairs)):
            assert a.dtype == b.dtype
            assert a.flags.c_contiguous
            assert b.flags.c_contiguous
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes(), slot


@settings(max_examples=60, deadline=None)
@given(rows_of(Everything, 1), st.integers(1, 5))
def test_a_value_that_is_broadcast_is_stored_once(values: list[list[object]], count: int) -> None:
    if not values:
        return
    schema_id = CODEBOOK.id_of(Everything)
    arrays = arrays_of(slots(Everything), [[value] for value in values[0]])
    wide = [
        tuple(numpy.broadcast_to(each, (count, *each.shape[1:])) for each in array)
        if isinstance(array, tuple)
        else numpy.broadcast_to(array, count)
        for array in arrays
    ]
    columns = payload_columns(schema_id, slots(Everything), wide)  # type: ignore[arg-type]
    assert {column.kind for column in columns.values()} == {"opaque", "const"}
    frame = Frame(count, {"schema": const(schema_id), **columns})
    assert [row for _, row in read_raw_payload(frame)] == [pack(values[0])] * count
    again = columns_of(frame, schema_id, slots(Everything))
    plain = columns_of(columnar(Everything, values * count), schema_id, slots(Everything))
    for one, other in zip(again, plain, strict=True):
        assert str(one) == str(other)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([Position, Nothing, "row"]), min_size=1, max_size=30))
def test_classes_in_rows_and_in_columns_share_a_frame(classes: list[object]) -> None:
    """`Everything` stands in rows here, the two others in columns; one of them has no fields."""
    seed = [Mode.FLYING, -7, "m-1", "", "", [], [], [], []]
    made: list[Event] = [
        Everything(i, 0.5, True, *seed)  # type: ignore[arg-type]
        if each == "row"
        else Position(float(i), -0.0)
        if each is Position
        else Nothing()
        for i, each in enumerate(classes)
    ]
    ids = [CODEBOOK.id_of(type(each)) for each in made]
    columns = {"schema": codes(ids)}
    for event in (Position, Nothing):
        own = [[each.lat, each.lon, each.alt] for each in made if isinstance(each, Position)]
        by_field = [list(column) for column in zip(*own, strict=True)] or [[], [], []]
        arrays = arrays_of(slots(event), by_field if event is Position else [])
        columns |= payload_columns(CODEBOOK.id_of(event), slots(event), arrays)
    rest = [each for each in made if isinstance(each, Everything)]
    if rest:
        columns |= {n: c for n, c in payload(rest, CODEBOOK).items() if n.startswith("rows.")}
    frame = Frame.decode(Frame(len(made), columns).encode())
    assert [pack(each) for each in read_payload(frame, CODEBOOK)] == [pack(each) for each in made]
    assert [row for _, row in read_raw_payload(frame)] == [pack(each) for each in made]
    found, places = schema_codes(frame)
    assert [found[place] for place in (places if places is not None else [0] * len(made))] == ids
    for schema_id in found:
        if schema_id == CODEBOOK.id_of(Position):
            lat = columns_of(frame, schema_id, slots(Position))[0]
            assert list(lat) == [each.lat for each in made if isinstance(each, Position)]


KEYS = st.text("abcäß-0😀", min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=20, unique=True), st.data())
def test_names_keep_those_that_occur(table: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=40))
    packed: list[bytes] = [name.encode() for name in table]
    places = numpy.array(chosen, "u4")
    for known in (packed, Names(packed)):
        frame = Frame(len(chosen), {"key": names_column(known, places)})
        again = Frame.decode(frame.encode())
        assert again.values("key") == [table[i] for i in chosen]
        found, own = key_codes(again)
        assert own.dtype == numpy.dtype("u4")
        assert sorted(found) == sorted({packed[i] for i in chosen})
        assert [found[i] for i in own] == [packed[i] for i in chosen]
    found, own = key_codes(Frame(len(chosen), {"key": rows([table[i] for i in chosen])}))
    assert [found[i] for i in own] == [packed[i] for i in chosen]


@pytest.mark.parametrize("count", [1, 256, 257, 65_536, 65_537])
def test_codes_of_names_are_as_narrow_as_they_can_be(count: int) -> None:
    table = Names([b"k-%d" % i for i in range(count)])
    order = numpy.arange(count, dtype="u4")[::-1].copy()
    column = names_column(table, order)
    width = 1 if count <= 256 else 2 if count <= 65_536 else 4
    assert len(column.data) == 4 + count + sum(map(len, table)) + width * count
    assert Frame(count, {"key": column}).values("key") == [f"k-{i}" for i in reversed(range(count))]
    few = numpy.array([count - 1, 0, count - 1])  # of a table that is far larger than the rows
    assert Frame(3, {"key": names_column(table, few)}).values("key") == [
        f"k-{count - 1}",
        "k-0",
        f"k-{count - 1}",
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 400), st.integers(0, 2**32))
def test_compiled_and_plain_loops_agree(size: int, parts: int, rows: int, seed: int) -> None:
    draw = numpy.random.default_rng(seed)
    places = draw.integers(0, size, rows).astype("u4")
    routes = draw.integers(0, parts, size).astype("u2")
    for one, other in (
        (compiled().order(places, routes, parts), PLAIN.order(places, routes, parts)),
        (compiled().occurring(places, size), PLAIN.occurring(places, size)),
    ):
        for a, b in zip(one, other, strict=True):
            assert a.tolist() == b.tolist()
    seen: list[int] = []
    for part, own in split(places, routes, parts):
        chosen = list(range(rows)) if own is None else own.tolist()
        assert chosen == [row for row in range(rows) if routes[places[row]] == part]
        seen += chosen
    assert sorted(seen) == list(range(rows))


def test_without_numba_the_plain_loops_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    kernels.cache_clear()
    compiled.cache_clear()
    try:
        assert kernels() is PLAIN
    finally:
        kernels.cache_clear()


@settings(max_examples=200, deadline=None)
@given(st.lists(INTEGERS, max_size=20))
def test_integers_are_as_narrow_as_they_can_be(values: list[int]) -> None:
    column = integers_column(numpy.array(values, "i8"))
    assert Frame(len(values), {"n": column}).values("n") == values
    (again,) = read_fields(Frame(0, {"n": column}), "", [Slot("n", "int")], len(values))
    assert list(again) == values
    spread = max(values) - min(values) if values else 0
    width = next((w for w in (1, 2, 4) if spread < 1 << 8 * w), 8)
    assert len(column.data) <= 9 + width * len(values)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**62), st.lists(st.integers(0, 70_000), unique=True, max_size=9).map(sorted))
def test_numbers_of_a_part_of_a_send_come_back(first: int, offsets: list[int]) -> None:
    column = rising_column(first, numpy.array(offsets, "i8"))
    assert Frame(len(offsets), {"seq": column}).values("seq") == [first + i for i in offsets]


def test_an_integer_without_sign_has_no_array() -> None:
    """A row may hold one; whoever wants arrays is told, and takes the rows."""
    frame = Frame(1, {"schema": const(3), "rows.3": opaque(pack([[2**63]]))})
    with pytest.raises(NoLayout, match="number"):
        columns_of(frame, 3, [Slot("number", "int")])


@settings(max_examples=80, deadline=None)
@given(rows_of(Everything), st.data())
def test_a_selection_stays_in_columns(values: list[list[object]], data: st.DataObject) -> None:
    """So that a part of a frame is never larger than the frame."""
    frame = columnar(Everything, values)
    table = [b"d-%d" % i for i in range(300)]
    frame.columns["key"] = names_column(table, numpy.arange(len(values))[::-1] * 7)
    frame.columns["seq"] = integers_column(numpy.arange(len(values)) * 1000)
    chosen = sorted(data.draw(st.sets(st.integers(0, max(0, len(values) - 1)))))
    chosen = chosen if values else []
    part = Frame.decode(select(frame, chosen).encode())
    assert [row for _, row in read_raw_payload(part)] == [pack(values[i]) for i in chosen]
    for name in ("key", "seq"):
        before = cast("list[object]", frame.values(name))
        assert part.values(name) == [before[i] for i in chosen]
    if chosen:
        assert {n: c.kind for n, c in part.columns.items()} == {
            n: c.kind for n, c in frame.columns.items()
        }
        assert len(part.encode()) <= len(frame.encode())
        assert len(key_codes(part)[0]) == len(chosen), "a name of nobody is kept"


# ---------------------------------------------------------------- damage


def sample() -> Frame:
    values: list[list[object]] = [
        [i * 300, i / 7, i % 2 == 0, "landing", -7, f"m-{i}", "ä€😀"[:i], "x" * i, *lists]
        for i in range(4)
        for lists in [[[i] * i, [0.5] * i, [True] * (i % 3), ["flying"] * i]]
    ]
    frame = columnar(Everything, values)
    frame.columns["key"] = names_column([b"d-1", b"d-2"], numpy.array([0, 1, 1, 0]))
    return frame


def read_all(frame: Frame) -> tuple[list[bytes], list[object]]:
    """Everything that can be read of the payload, in all ways; both kinds must agree."""
    raw = [row for _, row in read_raw_payload(frame)]
    keys = cast("list[object]", frame.values("key"))
    assert [pack(each) for each in read_payload(frame, CODEBOOK)] == raw
    whole = select(frame, range(frame.count))
    assert ([row for _, row in read_raw_payload(whole)], whole.values("key")) == (raw, keys)
    table, places = key_codes(frame)
    assert [table[place].decode() for place in places] == keys
    arrays = columns_of(frame, CODEBOOK.id_of(Everything), slots(Everything))
    again = field_columns("", slots(Everything), arrays)
    fields = [Frame(frame.count, again).values(slot.name) for slot in slots(Everything)]
    assert [pack(list(row)) for row in zip(*fields, strict=True)] == raw
    return raw, keys


COLUMNS = [name for name in sample().columns if name != "schema"]


@pytest.mark.parametrize("name", COLUMNS)
def test_damage_is_named_or_read_alike_by_every_reader(name: str) -> None:
    """Under a valid checksum, so some program wrote it. What is read has other values then, in
    rows and arrays the same ones."""
    before = sample()
    expected = read_all(before)
    kind, data = before.columns[name]
    noticed = 0
    changes = [data[:i] for i in range(len(data))] + [data + b"\x00"]
    for index in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            changes.append(data[:index] + bytes([data[index] ^ mask]) + data[index + 1 :])
    for changed in changes:
        frame = Frame(before.count, {**before.columns, name: Column(kind, changed)})
        try:
            assert read_all(frame) != expected
        except DamagedData:
            noticed += 1
    assert noticed >= len(data)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_missing_or_of_another_kind_is_damage(name: str) -> None:
    frame = sample()
    rest = {other: column for other, column in frame.columns.items() if other != name}
    with pytest.raises(DamagedData):
        read_all(Frame(frame.count, rest))
    for kind in ("ints", "bool", "enum", "text", "list.bool", "names", "f64", "list.names", "i64"):
        number = name.endswith((".height", ".number")) and kind in ("ints", "i64")
        opaque_one = frame.columns[name].kind == "opaque"
        if kind == frame.columns[name].kind or number or opaque_one:
            continue  # numbers may be written in several ways
        changed = Column(kind, frame.columns[name].data)
        with pytest.raises(DamagedData):
            read_all(Frame(frame.count, {**rest, name: changed}))
    with pytest.raises(DamagedData):
        read_all(Frame(frame.count - 1, frame.columns))


@pytest.mark.parametrize(
    ("width", "points"),
    [(2, [0xD83D, 0xDE00]), (2, [0xD83D]), (4, [0xDE00]), (4, [0x110000]), (3, [1])],
)
def test_code_points_that_are_no_text_are_damage(width: int, points: list[int]) -> None:
    """Also two halves side by side, which some decoders take for one character."""
    content = b"".join(point.to_bytes(width, "little") for point in points)
    column = Column("text", bytes([1, width, len(points)]) + content)
    frame = Frame(1, {"name": column})
    with pytest.raises(DamagedData):
        frame.values("name")
    with pytest.raises(DamagedData):
        read_fields(frame, "", [Slot("name", "text", 7)], 1)


def test_fields_in_another_order_are_damage() -> None:
    """Latitude and longitude have one type: read in the wrong order they would be wrong rows."""
    frame = columnar(Position, [[1.0, 2.0, 3.0]])
    schema_id = CODEBOOK.id_of(Position)
    for names in (["lon", "lat", "alt"], ["lat", "lon"], []):
        frame.columns[f"cols.{schema_id}"] = opaque(pack(names))
        with pytest.raises(DamagedData, match="other columns"):
            read_payload(frame, CODEBOOK)
        with pytest.raises(DamagedData, match="other columns"):
            columns_of(frame, schema_id, slots(Position))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["ints", "bool", "enum", "text", "names", "list.f64"]), st.binary())
def test_any_bytes_are_a_column_or_damage(kind: str, data: bytes) -> None:
    for count in (0, 1, 2, len(data)):
        try:
            found = Frame(count, {"c": Column(kind, data)}).values("c")
        except DamagedData:
            continue
        assert found is not None
        assert len(found) == count


@settings(max_examples=100, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=10))
def test_floats_keep_every_bit(values: list[float]) -> None:
    frame = columnar(Position, [[value, value, value] for value in values])
    found = cast("list[Position]", read_payload(Frame.decode(frame.encode()), CODEBOOK))
    for value, event in zip(values, found, strict=True):
        assert same(value, event.lat)
        assert math.copysign(1, value) == math.copysign(1, event.alt)


PROGRAM = """
import sys
sys.modules["numpy"] = sys.modules["numba"] = None  # any import of them fails
from holdfast.stepping.frame import Frame
from holdfast.stepping.inputs import StoredFrame, read_inputs, rows_of
from holdfast.stepping.rows import read_payload, read_raw_payload, select
from tests.stepping.columns import FLEET
from tests.stepping.rig import codebook_of

frame = Frame.decode(open(sys.argv[1], "rb").read())
print(frame.values("key"), len(read_payload(frame, codebook_of(FLEET))))
print(b"".join(row for _, row in read_raw_payload(frame)).hex())
print(read_raw_payload(select(frame, [2]))[0][1].hex(), select(frame, [2]).values("key"))
"""


def test_readers_need_no_numpy(tmp_path: Path) -> None:
    frame = sample()
    file = tmp_path / "frame"
    file.write_bytes(frame.encode())
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    raw = [row for _, row in read_raw_payload(frame)]
    assert result.stdout.splitlines() == [
        f"{['d-1', 'd-2', 'd-2', 'd-1']} 4",
        b"".join(raw).hex(),
        f"{raw[2].hex()} ['d-2']",
    ]
