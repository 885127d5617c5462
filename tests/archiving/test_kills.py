"""Goal: whoever is killed, in the end the archive has every frame once; and a machine that is gone
in an instant has lost the last seconds and nothing else."""

import random
import signal
import time
from collections.abc import Callable

import pytest

from holdfast.runtime.archiving.archive import Archive
from tests.archiving.bots import EVERYTHING, Bot, Ping, differences, fleet
from tests.archiving.places import Place, place
from tests.kills.harness import PATIENCE_SECONDS, ended, strike, wait_until
from tests.servers.seaweed import Seaweed

RPO_SECONDS = 2.0
SOAK = pytest.mark.soak  # each test on one of the stores; on the other in a long run


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("s3", 1), pytest.param("file", 2, marks=SOAK)])
def test_random_kills_leave_the_archive_equal_to_the_inbox(
    kind: str,
    seed: int,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    victims = ["shipper"] * 5 + ["worker"] * 3 + ["producer"] * 3 + ["keeper"] * 2
    chance.shuffle(victims)
    with place(_store(kind, request)) as at:
        wait_until(lambda: at.events() > 100, PATIENCE_SECONDS, "events")
        for victim in victims:
            time.sleep(chance.uniform(0.1, 0.8))
            _kill(at, victim)
        ended(at.producer)
        # Killed between its sync and its word to the others, a producer leaves an append, and a
        # worker a commit, that nobody sees until the files are opened anew. The next append and
        # the next commit decide that now.
        with fleet.connect(at.site.url) as live:
            live.send_many([(Bot, f"b-{n}", Ping(number=1)) for n in range(50)])
            live.settle()
        wait_until(lambda: at.archived() == at.events(), PATIENCE_SECONDS, "all is archived")
        at.keeper.send_signal(signal.SIGTERM)
        assert at.keeper.wait(PATIENCE_SECONDS) == 0
        with at.engine() as engine:
            assert differences(engine, at.blob()) == []
            views = [engine.view(n) for n in engine.catalog.layout.numbers]
            assert all(view.journal(0, EVERYTHING) for view in views), "no timer fired"
        assert "Traceback" not in at.site.log("run")
        record_property("summary", f"{at.archived():,} events archived, {len(victims)} kills")


def _store(kind: str, request: pytest.FixtureRequest) -> str | None:
    if kind == "file":
        return None
    seaweed: Seaweed = request.getfixturevalue("seaweed")
    return seaweed.url()


def _kill(at: Place, victim: str) -> None:
    if victim == "producer":
        ended(at.producer)
        at.start_producer()
    elif victim == "keeper":
        ended(at.keeper)
        at.start_keeper()
    else:
        find = at.shipper if victim == "shipper" else at.worker
        wait_until(find, PATIENCE_SECONDS, f"a {victim}")
        pid = find()
        if pid is not None:  # it has not ended by itself since
            strike(pid)


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "turns"), [("file", 2), pytest.param("s3", 4, marks=SOAK)])
def test_a_machine_that_is_gone_has_lost_the_last_seconds(
    kind: str,
    turns: int,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Everybody is killed at one moment. What the archive has is the beginning of what the disk
    has, whole; how old the oldest event is that is not in it is the figure that is told."""
    lost: list[float] = []
    events = 0
    chance = random.Random(3)
    with place(_store(kind, request)) as at:
        for turn in range(turns):
            before = at.archived()
            wait_until(lambda b=before: at.archived() > b, PATIENCE_SECONDS, "shipments")  # type: ignore[misc]
            time.sleep(chance.uniform(0.5, 1.5))  # any moment between two shipments
            moment = at.kill_everybody()
            lost.append(_lost_seconds(at, moment))
            events = at.events()
            if turn < turns - 1:
                at.start_keeper()
                at.start_producer()
        record_property(
            "summary",
            f"lost at a kill: {max(lost):.2f} s at most, {sorted(round(s, 2) for s in lost)}; "
            f"aim {RPO_SECONDS:g} s; {events:,} events",
        )


def _lost_seconds(at: Place, moment: float) -> float:
    archive = Archive(at.blob())
    oldest = moment
    assert list(archive.problems()) == []
    with at.engine() as engine:
        for number in engine.catalog.layout.numbers:
            view = engine.view(number)
            kept = view.frames(0, EVERYTHING)
            archived = list(archive.frames(view.incarnation(), 0))
            assert archived == kept[: len(archived)], "not the beginning of what was appended"
            rows = list(archive.journal(view.incarnation(), 0))
            assert rows == view.journal(0, EVERYTHING)[: len(rows)]
            oldest = min([oldest, *(frame.stamp for frame in kept[len(archived) :])])
    return moment - oldest
