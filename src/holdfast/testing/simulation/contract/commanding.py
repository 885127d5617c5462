"""KEPT and ONCE for an operator's commands, which travel through the inboxes without numbers."""

from __future__ import annotations

from collections import Counter

from holdfast.testing.simulation.contract.report import Report
from holdfast.testing.simulation.decoding import encode
from holdfast.testing.simulation.evidence import Command
from holdfast.testing.simulation.findings import Promise
from holdfast.testing.simulation.history import History
from holdfast.testing.simulation.plainfates import STOPS


def check(history: History, report: Report) -> None:
    given = Counter(
        (command.agent, command.key, encode(command.command))
        for command in history.evidence.commands
        if command.outcome != "refused"
    )
    for partition in history.partitions:
        for one in partition.every:
            if one.command is None or one.command[0] in STOPS:
                continue  # how many a ground stop takes is not the client's to say
            name = one.agent, one.key, encode(one.command)
            given[name] -= 1
            if given[name] < 0:
                text = f"{one.who}: {one.command} at {one.position} is more than was given"
                report.add(Promise.ONCE, text, partition.number, one.who)
    taken: set[tuple[int, int]] = set()
    for command in history.evidence.commands:
        if command.receipt is not None:
            _kept(history, report, command, taken)


def _kept(history: History, report: Report, command: Command, taken: set[tuple[int, int]]) -> None:
    """It stands before the position its receipt names, and no other command's receipt names it."""
    assert command.receipt is not None
    who = f"{command.agent}/{command.key}"
    for partition in history.partitions:
        for number, following in command.receipt.positions:
            one = partition.input_at(following - 1) if partition.number == number else None
            place = number, following
            if one is None or (one.who, one.command) != (who, command.command) or place in taken:
                continue
            taken.add(place)
            return
    positions = command.receipt.positions
    text = f"{who}: {command.command} was acknowledged for {positions}, where it is not"
    report.add(Promise.KEPT, text, None, who, command.ended)
