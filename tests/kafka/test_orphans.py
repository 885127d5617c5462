"""Goal: partitions that the group has left to nobody do not stay so.

With static members they can: one that was told to give partitions away dies, comes back under its
name within its session, and gets what is left to it; the brokers see no reason to rebalance, and
whoever was to have the rest is never asked again.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.kafka.founding import open_fleet
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.kafka.settings import KafkaSettings
from tests.kills.harness import wait_until

PARTITIONS = 4
PATIENCE_SECONDS = 60.0
# A member that is told to give partitions away and does not, as if its worker were at a commit.
HOLDER = """
import sys, time
from pathlib import Path
from holdfast.engine.kafka.membership import Membership
from holdfast.engine.kafka.naming import MemberName
from holdfast.engine.kafka.settings import KafkaSettings
settings = KafkaSettings(sys.argv[1], sys.argv[2], session_seconds=10.0)
name = MemberName(Path(sys.argv[3]), "holder", 10.0)
member = Membership(settings, sys.argv[2] + ".inbox.0", name, lambda: None)
while len(member.assigned()) < 4:
    time.sleep(0.05)
for index in range(4):
    member.hold(index)
print("holds", flush=True)
while len(member.assigned()) == 4:
    time.sleep(0.05)
print("owes", flush=True)
time.sleep(60.0)
"""


@pytest.fixture
def settings(kafka: str, tmp_path: Path) -> KafkaSettings:
    prefix = f"orphans-{uuid.uuid4().hex[:8]}"
    made = KafkaSettings(kafka, prefix, cache=tmp_path, session_seconds=10.0)
    open_fleet(made, "orphans", PARTITIONS).close()
    return made


@pytest.fixture
def members(settings: KafkaSettings, tmp_path: Path) -> Iterator[list[Membership]]:
    """The one that was to get some, and the holder, back under its name."""
    note = tmp_path / "holder"
    words = [sys.executable, "-c", HOLDER, settings.bootstrap, settings.prefix or "", note]
    holder = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"
    topic = f"{settings.prefix}.inbox.0"
    joined = [
        Membership(settings, topic, MemberName(tmp_path / "other", "other", 10.0), lambda: None)
    ]
    try:
        assert holder.stdout.readline() == "owes\n"
        os.kill(holder.pid, signal.SIGKILL)
        joined.append(Membership(settings, topic, MemberName(note, "holder", 10.0), lambda: None))
        yield joined
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        for member in joined:
            member.close()


def given(members: list[Membership]) -> int:
    return sum(len(member.assigned()) for member in members)


@pytest.mark.kill
def test_they_are_given_to_somebody(members: list[Membership]) -> None:
    wait_until(lambda: given(members) == PARTITIONS, PATIENCE_SECONDS, "every one has a member")
    assert members[0].assigned() | members[1].assigned() == set(range(PARTITIONS))
