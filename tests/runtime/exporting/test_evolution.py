"""Goal: when a class gets a new version, its table gets new columns, and columns wide enough for
both; nothing that was exported is lost, and Parquet files of both versions read together."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as dataset
import pytest

from holdfast import Fleet
from holdfast.engine.urls import open_engine
from tests.cli.fleets import CARTS_1, CARTS_2_UPCAST
from tests.runtime.exporting.sinks import Database, Parquet, Sink, export


def carts(code: str, *changes: tuple[str, str]) -> Fleet:
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    space: dict[str, object] = {"__name__": "carts"}
    exec(compile(code, "carts.py", "exec"), space)
    fleet = space["fleet"]
    assert isinstance(fleet, Fleet)
    return fleet


def drive(fleet: Fleet, folder: Path, keys: str) -> None:
    with fleet.open(f"sqlite:{folder / 'data'}") as live:
        event = fleet.events["Drove"](metres=7)  # type: ignore[call-arg]
        live.send_many([(fleet.agents["Cart"], key, event) for key in keys])
        live.settle()


def put(folder: Path, sink: Sink) -> int:
    engine = open_engine(f"sqlite:{folder / 'data'}", None)
    try:
        return export(engine, "states", sink)
    finally:
        engine.close()


def test_a_new_field_is_a_new_column(database: Database, tmp_path: Path) -> None:
    drive(carts(CARTS_1), tmp_path, "ab")
    assert put(tmp_path, database) == 2
    added = ("battery: float = 100.0", 'battery: float = 100.0\n    zone: str = "yard"')
    drive(carts(CARTS_1, added), tmp_path, "b")
    assert put(tmp_path, database) == 1
    found = database.states("carts")
    assert (found["Cart/a"]["battery"], found["Cart/a"]["zone"]) == (99.0, None)
    assert (found["Cart/b"]["battery"], found["Cart/b"]["zone"]) == (98.0, "yard")


def test_a_renamed_field_leaves_its_old_column(database: Database, tmp_path: Path) -> None:
    drive(carts(CARTS_1), tmp_path, "ab")
    put(tmp_path, database)
    drive(carts(CARTS_2_UPCAST), tmp_path, "b")
    put(tmp_path, database)
    found = database.states("carts")
    assert (found["Cart/a"]["battery"], found["Cart/a"]["charge"]) == (99.0, None)
    assert (found["Cart/b"]["battery"], found["Cart/b"]["charge"]) == (None, 0.98)


@pytest.mark.parametrize(
    ("kind", "start", "step", "expected", "column"),
    [
        ("float", "0.0", "event.metres", 7.5, "double precision"),
        ("str", '"far"', '"er"', "0.5er", "json"),
        ("list[int]", "[]", "[event.metres]", [0, 7], "json"),
    ],
)
def test_a_changed_type_widens_its_column(
    database: Database,
    tmp_path: Path,
    kind: str,
    start: str,
    step: str,
    expected: object,
    column: str,
) -> None:
    drive(carts(CARTS_1), tmp_path, "ab")
    put(tmp_path, database)
    made = {"float": "0.5", "str": '"0.5"', "list[int]": "[0]"}[kind]
    upcast = f"""    @classmethod
    def upcast(cls, old: dict[str, object]) -> dict[str, object]:
        return {{**old, "metres": {made}}}

    @on
"""
    code = CARTS_1.replace("    @on\n", upcast, 1)
    changed = carts(
        code, ("metres: int = 0", f"metres: {kind} = {start}"), ("+= event.metres", f"+= {step}")
    )
    drive(changed, tmp_path, "b")
    put(tmp_path, database)
    found = database.states("carts")
    assert found["Cart/a"]["metres"] == 7
    assert found["Cart/b"]["metres"] == expected
    query = """
        SELECT data_type FROM information_schema.columns
        WHERE table_name = 'carts_states_Cart' AND column_name = 'metres'
    """
    assert database.query(query) == [(column,)]
    drive(changed, tmp_path, "a")
    assert put(tmp_path, database) == 1


def test_parquet_files_of_both_versions_read_together(tmp_path: Path) -> None:
    sink = Parquet(tmp_path)
    drive(carts(CARTS_1), tmp_path, "ab")
    put(tmp_path, sink)
    added = ("battery: float = 100.0", 'battery: float = 100.0\n    zone: str = "yard"')
    drive(carts(CARTS_1, added), tmp_path, "b")
    put(tmp_path, sink)
    folder = tmp_path / "parquet" / "states" / "Cart"
    files = sorted(folder.glob("*.parquet"))
    whole = dataset.dataset(folder, schema=dataset.dataset(files[-1]).schema)
    rows = sorted(whole.to_table().to_pylist(), key=lambda row: (row["key"], row["version"]))
    assert [(row["key"], row["version"], row["zone"]) for row in rows] == [
        ("a", 1, None),
        ("b", 1, None),
        ("b", 2, "yard"),
    ]


def test_states_of_old_versions_are_exported_as_they_are_stored(
    database: Database, tmp_path: Path
) -> None:
    """A first export finds states of several versions."""
    drive(carts(CARTS_1), tmp_path, "a")
    drive(carts(CARTS_2_UPCAST), tmp_path, "b")
    put(tmp_path, database)
    found = database.states("carts")
    assert found["Cart/a"]["battery"] == 99.0
    assert found["Cart/b"]["charge"] == 0.99
