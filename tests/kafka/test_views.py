"""Goal: views fold a fleet on Kafka as they fold one in files: what is committed, each input once
and in order, also when their process is killed, when owners change, and through a rebuild."""

from __future__ import annotations

import random
import subprocess
import threading
import uuid
from pathlib import Path

import pytest

from holdfast import Fleet, Live
from holdfast.runtime.untyped import connect_untyped
from holdfast.view.sql.queries import Queries
from tests.view.test_folding import caught_up, send, stream
from tests.view.test_rebuilding import started, until
from tests.view.zones import Drone, ZoneLoad, expected, fleet

ROUNDS = 4


@pytest.fixture
def place(kafka: str) -> str:
    return f"kafka://{kafka}/views-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def chance() -> random.Random:
    return random.Random(1)


def ended(process: subprocess.Popen[str]) -> str:
    process.terminate()
    output, _ = process.communicate(timeout=60)
    return output


def says_that_it_folds(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert "folding view ZoneLoad" in process.stdout.readline()


def test_rows_are_what_the_stream_makes(place: str, tmp_path: Path, chance: random.Random) -> None:
    """In the process that owns the partitions; read there, and from another one by SQL."""
    sent = stream(chance, 600)
    views = str(tmp_path / "views")
    with fleet.open(f"{place}?cache={tmp_path / 'owner'}", partitions=2, views=views) as live:
        send(live, sent[:300])
        assert caught_up(live) == expected(sent[:300])
        receipt = live.send_many([(Drone, key, event) for key, event in sent[300:]])
        assert live.view(ZoneLoad).rows(after=receipt, timeout=30) == expected(sent)
        assert sum(live.view(ZoneLoad).positions().values()) == len(sent)
        elsewhere = f"{place}?cache={tmp_path / 'reader'}"
        with fleet.connect(elsewhere, views=views) as reader:
            assert reader.view(ZoneLoad).rows(after=receipt, timeout=30) == expected(sent)
        with connect_untyped(elsewhere, views=views) as untyped, Queries(untyped) as queries:
            assert queries.answer("SELECT sum(events) FROM zoneload").rows == [[600]]
    with fleet.open(f"{place}?cache={tmp_path / 'owner'}", views=views) as live:
        assert caught_up(live) == expected(sent), "it goes on where it was"


@pytest.mark.kill
def test_a_killed_view_goes_on(place: str, tmp_path: Path, chance: random.Random) -> None:
    """Apart from its fleet, asking the owners; also while it is rebuilt, and when they change."""
    url, views = f"{place}?cache={tmp_path / 'views process'}", str(tmp_path / "views")
    without, sent = Fleet("zones", agents=[Drone]), stream(chance, 150 * ROUNDS)

    def opened() -> Live:
        return without.open(f"{place}?cache={tmp_path / 'owner'}", partitions=2, views=views)

    for number in range(ROUNDS):
        with opened() as live:
            process = started(url, "--views", views)
            try:
                says_that_it_folds(process)
                if number % 2:
                    live.view(ZoneLoad).rebuild()
                send(live, sent[150 * number : 150 * (number + 1)])
            finally:
                process.kill()
            output, _ = process.communicate(timeout=30)
            assert output == ""
    process = started(url, "--views", views)
    try:
        says_that_it_folds(process)
        with opened() as live:  # the owners come later than it, under another claim
            live.settle()
            until(lambda: live.view(ZoneLoad).standing().doing == "folds", 60)
            live.view(ZoneLoad).catch_up(timeout=60)
            assert live.view(ZoneLoad).rows() == expected(sent)
    finally:
        output = ended(process)
    assert output.endswith("view ZoneLoad is folded no more\n")


def test_it_is_rebuilt_while_the_old_one_serves(
    place: str, tmp_path: Path, chance: random.Random
) -> None:
    """Whoever reads meanwhile sees whole rows, and never less than before."""
    sent = stream(chance, 400)
    wrong: list[object] = []
    done = threading.Event()
    with fleet.open(f"{place}?cache={tmp_path / 'owner'}", partitions=2) as live:
        view = live.view(ZoneLoad)
        send(live, sent[:200])
        assert caught_up(live) == expected(sent[:200])
        (serving,) = tmp_path.rglob("ZoneLoad/serving")
        assert serving.read_text() == "1"

        def read() -> None:
            newest = 0
            while not done.is_set():
                count = sum(zone.events for zone in view.rows().values())
                if count < newest:
                    wrong.append((count, newest))
                newest = count

        reading = threading.Thread(target=read)
        reading.start()
        try:
            view.rebuild()
            send(live, sent[200:])
            until(lambda: serving.read_text() == "2", 60)
            assert caught_up(live) == expected(sent)
        finally:
            done.set()
            reading.join()
    assert wrong == []
