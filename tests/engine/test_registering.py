"""Goal: a catalog is written for what is new, not because JSON has other types than Python."""

from __future__ import annotations

import json

import pytest

from holdfast.engine.registering import to_write
from holdfast.model.schema import Field, Schema, default_for_schema

FIELDS = (Field("sizes", "str", required=False),)


def load(default: object) -> Schema:
    _, kept = default_for_schema(default)
    return Schema("event", "Load", FIELDS, {"defaults": {"sizes": kept}})


def as_stored(schema: Schema) -> dict[int, Schema]:
    return {1: Schema.from_json(json.loads(json.dumps(schema.to_json())))}


@pytest.mark.parametrize(
    "default",
    [
        frozenset({"small", "large", "huge"}),
        {1: 1, 2: 2, 10: 3},
        {1: 1, "a": 2},
        (1, 2),
        -0.0,
        b"\x00",
    ],
)
def test_what_comes_back_is_no_news(default: object) -> None:
    assert to_write([load(default)], as_stored(load(default)), renew=True) == []


def test_the_order_of_a_set_says_nothing() -> None:
    assert default_for_schema(frozenset({"b", "c", "a"})) == (True, ["a", "b", "c"])


def test_other_options_are_news_to_who_renews() -> None:
    stored, other = as_stored(load("small")), load("large")
    assert to_write([other], stored, renew=False) == []
    assert to_write([other], stored, renew=True) == [other]
    assert to_write([other], {}, renew=False) == [other]
