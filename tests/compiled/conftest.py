"""Kernels for these tests. Like every kernel they are kept in the cache of the machine, by their
content: a run compiles only what no run before it has compiled, in whichever process is first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.runtime.kernels import kernels_of
from holdfast.stepping.compiled.kind import Kernel
from tests.compiled.agents import FLEET


@pytest.fixture(scope="session")
def kernels() -> Mapping[str, Kernel]:
    return kernels_of(FLEET)
