"""One fleet with its gateway for a file of tests that only need one."""

from collections.abc import Iterator

import pytest

from tests.gateway.grpc.dialled import Dialled, dialled


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialled]:
    with dialled(tmp_path_factory.mktemp("yard")) as found:
        yield found
