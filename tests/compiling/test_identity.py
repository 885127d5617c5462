"""Goal: kernels draw the numbers and make the ids that `model.rng` and the context make, over all
the ranges that a handler may ask for."""

import random
from typing import Any, cast

import numpy as np
import pytest
from numba import njit

from holdfast.model.rng import Random, seed_of
from holdfast.stepping.compiled import kernels
from holdfast.stepping.compiled.kernels.identity import draw, draw_gauss, draw_int, draw_uniform

compiled = cast(Any, njit)(_nrt=False)


@compiled
def draws(S, C, low, high, floats, whole):  # type: ignore[no-untyped-def]
    C[4][1] = 0
    C[0][11] = 0
    floats[0] = draw(S, 0, C)
    whole[0] = draw_int(S, 0, C, low, high)
    floats[1] = draw_gauss(S, 0, C, 1.0, 2.0)
    whole[1] = draw_int(S, 0, C, low, high)
    floats[2] = draw_uniform(S, 0, C, -3.0, 9.0)


RANGES = [
    (0, 0), (-5, 1000), (7, 7), (0, 2**32), (0, 2**53), (-(2**53) - 1, 2), (0, 2**60),
    (-(2**61), 2**61), (2**61 - 2, 2**61),
]  # fmt: skip


def test_a_kernel_draws_what_python_draws() -> None:
    chance = random.Random(3)
    for turn in range(40):
        fleet, agent = "f" * chance.randint(1, 120), "Drone" * chance.randint(1, 9)
        key, version = "k" * chance.randint(1, 128), chance.randint(0, 10**15)
        S = np.zeros(1, [("version", "i8")])
        S["version"] = version
        prefix = np.frombuffer(f"{fleet}\0{agent}\0".encode(), np.uint8)
        C = (
            np.zeros(64, np.int64), np.zeros(3), np.frombuffer(key.encode(), np.uint8),
            np.array([0, len(key)]), np.zeros(64, np.uint64), np.zeros(1), np.zeros(999, np.uint32),
            prefix,
        )  # fmt: skip
        low, high = RANGES[turn % len(RANGES)]
        floats, whole = np.zeros(3), np.zeros(2, np.int64)
        draws(S, C, low, high, floats, whole)
        dice = Random(seed_of(fleet, agent, key, version))
        expected: list[float] = [dice.random(), dice.randint(low, high), dice.gauss(1.0, 2.0)]
        expected += [dice.randint(low, high), dice.uniform(-3.0, 9.0)]
        assert [floats[0], int(whole[0]), floats[1], int(whole[1]), floats[2]] == expected


def test_a_range_the_wrong_way_round_is_for_the_interpreter() -> None:
    S = np.zeros(1, [("version", "i8")])
    text = np.frombuffer(b"fleet\0Drone\0", np.uint8)
    C = (
        np.zeros(64, np.int64), np.zeros(3), text, np.array([0, 3]), np.zeros(64, np.uint64),
        np.zeros(1), np.zeros(999, np.uint32), text,
    )  # fmt: skip
    with pytest.raises(kernels.Unusual):
        draws(S, C, 5, 4, np.zeros(3), np.zeros(2, np.int64))
