"""Goal: a real Prometheus scrapes a running fleet, an alert of deploy/ fires for a fault that is
there, and every query of the dashboard is valid and answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.runtime.metering.families import FAMILIES
from holdfast.runtime.untyped import UntypedLive
from tests.cli.commands import eventually
from tests.docs.documents import ROOT
from tests.metering.running import Page, drive, names_in, running, send
from tests.servers.prometheus import Prometheus, promtool

RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "holdfast.json").read_text("utf-8"))
# Nothing of the kind happens in this fleet: no result is the right one.
SILENT = {
    "holdfast_event_age_seconds",  # its events do not say when they happened
}


def queries() -> list[tuple[str, str]]:
    """Title and expression of every query, with what Grafana puts in."""
    found = [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    ]
    given = {"$fleet": "carts", "$__rate_interval": "10s"}
    for name, text in given.items():
        found = [(title, expression.replace(name, text)) for title, expression in found]
    return found


def keep_driving(live: UntypedLive, stopping: threading.Event) -> None:
    while not stopping.wait(0.2):
        drive(live, 500, hot="c-1")
        send(live, "c-2", "Plan")
        send(live, "c-3", "Grow", size=30_000)


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[tuple[Prometheus, UntypedLive]]:
    archive = ("--archive", f"file:{tmp_path / 'archive'}")
    with running(tmp_path, *archive) as (_, live):
        stopping = threading.Event()
        driver = threading.Thread(target=keep_driving, args=(live, stopping))
        page = Page(live)
        driver.start()
        try:
            with Prometheus(tmp_path, page.port, RULES) as prometheus:
                yield prometheus, live
        finally:
            stopping.set()
            driver.join()
            page.close()


def is_up(prometheus: Prometheus) -> bool:
    """The last scrape: on a busy machine one may take too long now and then."""
    [target] = prometheus.targets()
    return (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.slow
def test_it_scrapes_alerts_and_answers_the_dashboard(
    scraped: tuple[Prometheus, UntypedLive],
) -> None:
    prometheus, live = scraped
    eventually("a scrape", lambda: bool(prometheus.query("holdfast_partitions")))
    eventually("it is up", lambda: is_up(prometheus))
    assert "HoldfastDeadLetters" not in prometheus.firing()

    send(live, "c-9", "Fail")
    eventually("an alert", lambda: "HoldfastDeadLetters" in prometheus.firing())

    # Rates need two scrapes of what came last: the snapshotter starts 5 s after the workers.
    eventually("a snapshot", lambda: bool(prometheus.query("holdfast_snapshot_seconds")))
    eventually("rates", lambda: not empty(prometheus))
    assert not prometheus.firing() - {"HoldfastDeadLetters", "HoldfastHotKey"}


def empty(prometheus: Prometheus) -> list[str]:
    time.sleep(0.5)
    found = [
        f"{title}: {expression}"
        for title, expression in queries()
        if not prometheus.query(expression) and not names_in(expression) & SILENT
    ]
    print(found)
    return found


def test_dashboard_and_rules_name_metrics_that_are_there() -> None:
    known = {family.name for family in FAMILIES}
    asked = names_in(" ".join(expression for _, expression in queries()))
    assert len(asked) > 30
    assert asked <= known
    assert names_in(RULES.read_text("utf-8")) <= known


def test_panels_are_where_a_person_can_see_them() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    taken = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken)), "panels overlap"
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_promtool_finds_nothing_wrong() -> None:
    for kind, name in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = promtool("check", kind, RULES.with_name(name))
        assert done.returncode == 0, done
        assert "SUCCESS" in done.stdout


def test_every_alert_does_what_it_is_for() -> None:
    done = promtool("test", "rules", Path(__file__).with_name("alerts.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    tested = Path(__file__).with_name("alerts.yml").read_text("utf-8")
    names = [
        line.split(":")[1].strip()
        for line in RULES.read_text("utf-8").splitlines()
        if line.strip().startswith("- alert:")
    ]
    assert len(names) > 15
    for name in names:
        assert f"alertname: {name}\n" in tested, name
