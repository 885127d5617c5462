"""Small tables that are read anew for every query: dead letters, and where partitions stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as arrow

from holdfast.engine.port import Engine
from holdfast.runtime.exporting.arrays import array_of
from holdfast.runtime.exporting.columns import Form
from holdfast.runtime.exporting.payloads import Payloads
from holdfast.runtime.lagging import lags
from holdfast.stepping.commit import Head, Letter
from holdfast.view.sql.sheets import marked

LETTERS: dict[str, Form] = {
    "id": "text",
    "partition": "int",
    "position": "int",
    "stamp": "moment",
    "agent": "text",
    "key": "text",
    "type": "text",
    "error": "text",
    "trace": "text",
    "redriven": "bool",
    "payload": "payload",
}
PARTITIONS: dict[str, Form] = {
    "number": "int",
    "position": "int",
    "inbox": "int",
    "lag": "int",
    "oldest_seconds": "float",
    "agents": "int",
    "commits": "int",
    "owner": "text",
}

Rows = Sequence[tuple[object, ...]]


def table_of(forms: Mapping[str, Form], rows: Rows) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(forms)
    return arrow.table(
        {
            name: marked(form, array_of(form, column))
            for (name, form), column in zip(forms.items(), columns, strict=True)
        }
    )


def letters_table(
    letters: Iterable[tuple[int, Letter, bool]], payloads: Payloads, rows_max: int
) -> tuple[Any, str]:
    """Of each: partition, letter, whether it was redriven. With what was left out, in words."""
    ordered = sorted(letters, key=lambda each: each[1].now)
    left_out = max(0, len(ordered) - rows_max)
    rows = []
    for number, letter, redriven in ordered[left_out:]:
        name, text = payloads.one(letter.schema, letter.row)
        place = (f"{number}.{letter.id}", number, letter.position, letter.now)
        what = (letter.agent, letter.key, name, letter.error, letter.trace, redriven, text)
        rows.append((*place, *what))
    note = f"of dead_letters the newest {rows_max:,} were read, {left_out:,} older ones were not"
    return table_of(LETTERS, rows), note if left_out else ""


def letters_of(engine: Engine, heads: Mapping[int, Head]) -> Iterable[tuple[int, Letter, bool]]:
    """Those that the heads know; whether one was redriven may be newer."""
    for number, head in heads.items():
        for letter, redriven in engine.view(number).letters():
            if letter.id < head.letters_next:
                yield number, letter, redriven


def partitions_table(engine: Engine, heads: Mapping[int, Head], agents: Mapping[int, int]) -> Any:
    rows = []
    for lag in lags(engine):
        head = heads[lag.partition]
        folded = head.position + head.urgent
        inbox = max(lag.inbox, folded)
        rows.append(
            (
                lag.partition,
                head.position,
                inbox,
                inbox - folded,
                lag.oldest_seconds,
                agents[lag.partition],
                head.commits,
                lag.owner or None,
            )
        )
    return table_of(PARTITIONS, rows)


def past_partitions_table(heads: Mapping[int, Head], agents: Mapping[int, int]) -> Any:
    """Of another time: what waited then, and who folded, is not kept."""
    return table_of(
        PARTITIONS,
        [
            (number, head.position, None, None, None, agents[number], head.commits, None)
            for number, head in heads.items()
        ],
    )
