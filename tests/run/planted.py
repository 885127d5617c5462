"""Plants every bug the instruments are tested with, and counts what they catch: `make planted`.

A test marked `planted("instrument")` plants one bug per case, and passes if it is caught. A bug is
named by the id of its case up to the first "-": what stands behind tells by which test of the
instrument it is caught, and each of them has to. Also a pytest plugin, which makes the table; one
that is skipped is missed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROCESSES = 4
# How many there have to be: one that has lost its mark is neither caught nor missed.
LEAST = {
    "audit of the demo": 11,
    "conformance kit": 99,
    "conformance kit for stores": 10,
    "crash states": 16,
    "linearizability": 5,
    "oracle of the simulator": 108,
    "simulator": 54,
    "simulator: lives of actions": 5,
}
# By instrument and bug: the cases that have missed it.
planted: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))


def pytest_itemcollected(item: pytest.Item) -> None:
    mark = item.get_closest_marker("planted")
    if mark is not None:  # a property travels with the report, from whatever process
        item.user_properties.append(("planted", mark.args[0]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    instrument = dict(report.user_properties).get("planted")
    if instrument is None:
        return
    test, _, case = report.nodeid.partition("[")
    bug = f"{test}[{case.rstrip(']').partition('-')[0]}]"
    missed_by = planted[str(instrument)][bug]
    if report.outcome != "passed":
        missed_by.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    missed = any(missed_by for bugs in planted.values() for missed_by in bugs.values())
    if missed and session.exitstatus == pytest.ExitCode.OK:  # skipped, which is no failure
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("planted bugs")
    terminalreporter.write_line(table())


def table() -> str:
    lines = ["| instrument | planted | caught | missed |", "|---|---|---|---|"]
    for instrument, bugs in sorted(planted.items()):
        missed = sum(map(bool, bugs.values()))
        lines.append(f"| {instrument} | {len(bugs)} | {len(bugs) - missed} | {missed} |")
    cases = [case for bugs in planted.values() for missed_by in bugs.values() for case in missed_by]
    return "\n".join([*lines, "", *(f"missed: {case}" for case in sorted(cases))]).strip()


def main(arguments: list[str]) -> int:
    files = [str(f) for f in sorted(TESTS.rglob("test_*.py")) if "mark.planted" in f.read_text()]
    run = ["-p", "tests.run.planted", "-m", "planted", "-q", "-n", str(PROCESSES)]
    status = pytest.main([*run, *files, *arguments])
    from tests.run.planted import planted as found  # pytest's: this module is called __main__

    fewer = [name for name, least in LEAST.items() if len(found[name]) < least]
    if arguments or not fewer:
        return int(status)
    print("fewer are planted than there were: " + ", ".join(fewer))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
