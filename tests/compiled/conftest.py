"""Kernels for these tests: compiled once per session, into a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.runtime.kernels import kernels_of
from holdfast.stepping.compiled.kind import Kernel
from tests.compiled.agents import FLEET


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Processes that tests start find it too."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def kernels(kernel_cache: Path) -> Mapping[str, Kernel]:
    return kernels_of(FLEET)
