"""A server that is not installed: a skip that names the reason, and a failure where CI runs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, how_to_get_it: str) -> NoReturn:
    text = f"{what} is missing: {how_to_get_it}"
    if os.environ.get("HOLDFAST_CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
