"""What an audit found: a count for every kind of thing and every kind of fault, with examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

SUBJECTS = {
    "events": "events sent",
    "messages": "messages sent",
    "timers": "timers fired",
    "actions": "actions issued",
    "states": "states",
}
FAULTS = ("lost", "doubled", "out of order", "wrong")  # columns; rarer ones are told in words
EXAMPLES_MAX = 3


@dataclass
class Findings:
    due: Counter[str] = field(default_factory=Counter)  # how many there must be
    stored: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)  # by the counters in the states
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # worth knowing, and not a fault
    tainted: set[tuple[str, str]] = field(default_factory=set)

    def fault(self, subject: str, fault: str, example: str, count: int = 1) -> None:
        self.faults[subject, fault] += count
        examples = self.examples.setdefault((subject, fault), [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(example)

    def taint(self, agent: str, key: str) -> None:
        """This agent's stored inputs are faulty: what follows from them cannot be told."""
        self.tainted.add((agent, key))

    @property
    def passed(self) -> bool:
        return not +self.faults

    def verdict(self) -> str:
        if self.passed:
            return "nothing lost, nothing doubled, everything in order"
        return "; ".join(
            f"{subject} {fault}: {count:,}" for (subject, fault), count in self.faults.items()
        )

    def show(self, console: Console) -> None:
        console.print(self._table())
        if self.notes or self.examples:
            console.print()
        for note in self.notes:
            console.print(f"  {escape(note)}")
        for (subject, fault), examples in self.examples.items():
            more = self.faults[subject, fault] - len(examples)
            if more and len(examples) == EXAMPLES_MAX:
                examples = [*examples, f"and {more:,} more"]
            for example in examples:
                # One fault, one line, however long: logs are searched by line.
                text = f"  [red]{subject} {fault}[/]: {escape(example)}"
                console.print(text, soft_wrap=True)
        if self.tainted:
            agents = "agent is" if len(self.tainted) == 1 else "agents are"
            console.print(
                f"  {len(self.tainted):,} {agents} not compared: the stored inputs are faulty"
            )
        word = "[bold green]PASSED[/]" if self.passed else "[bold red]FAILED[/]"
        console.print(f"\n  {word}  {self.verdict()}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
        table.add_column("", no_wrap=True)
        for title in ("must be", "stored", "folded", *FAULTS):
            table.add_column(title, justify="right")
        for subject, title in SUBJECTS.items():
            counts = [f"{self.due[subject]:,}", f"{self.stored[subject]:,}"]
            counts.append(f"{self.folded[subject]:,}" if subject in self.folded else "")
            for fault in FAULTS:
                count = self.faults[subject, fault]
                counts.append(f"[bold red]{count:,}[/]" if count else "0")
            table.add_row(title, *counts)
        return table
