"""How tests on brokers are spread over the processes of a run: `-p tests.kafka.spreading -n 4`.

One by one, so that nobody has a whole file to do while the others have ended; but those of a file
stay together that share something dear. The long ones come first, and the many short ones fill
what is left. (`--dist loadgroup`, which is meant for this, finds no groups since pytest 9.2.)
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# Each has a cluster of its own, or a run of a whole fleet, for all of its tests.
TOGETHER = frozenset(
    (
        "tests/engine/test_kafka_writer.py",
        "tests/kafka/test_refusals.py",
        "tests/kafka/test_security.py",
        "tests/kafka/test_verdict.py",
        "tests/servers/test_kafka_servers.py",
    )
)


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread:
    gone = [file for file in TOGETHER if not (config.rootpath / file).exists()]
    if gone:
        raise pytest.UsageError(f"{__name__} names files that are not there: {gone}")
    config.option.loadscopereorder = False
    return Spread(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before anything is left out, and the same in every process."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
