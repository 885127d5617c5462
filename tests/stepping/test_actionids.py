"""Goal: what is no id of an action is never taken for one; every id that is made is read back."""

from __future__ import annotations

import pytest

from holdfast.model.keys import KEY_LENGTH_MAX, is_key
from holdfast.stepping.actionids import ActionName, action_id, read_action_id, undo_id

KEYS = ["d-1", "A.b:c_d-e", "0", "k" * KEY_LENGTH_MAX]


@pytest.mark.parametrize("key", KEYS)
def test_an_id_is_read_back(key: str) -> None:
    assert is_key(key)
    id = action_id("fleet.x", "Drone_2", key, 1_700_000_000_000_000, 12)
    name = ActionName("fleet.x", "Drone_2", key, 1_700_000_000_000_000, 12, False)
    assert read_action_id(id) == name
    assert read_action_id(undo_id(undo_id(id))) == name._replace(undoes=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "undo",
        "f/D/k/1",
        "f/D/k/1/0/",
        "f/D/k/1/0/undone",
        "f/D/k/01/0",
        "f/D/k/1/00",
        "f/D/k/-1/0",
        "f/D/k/1/٣",
        "f/D/k/1/0\n",
        "f/D/../1/0",
        "f/D//1/0",
        f"f/D/{'k' * (KEY_LENGTH_MAX + 1)}/1/0",
        f"f/D/k/{10**18}/0",
        "f/D/k/1/id1",
        "f/D/k/1/call1",
    ],
)
def test_other_texts_are_none(text: str) -> None:
    assert read_action_id(text) is None
