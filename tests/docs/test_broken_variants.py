"""Goal: docs/TESTING.md lists every broken variant the simulator is tested with, and no other."""

from tests.docs.documents import ROOT
from tests.simulation.broken import BROKEN


def test_the_table_lists_every_broken_variant() -> None:
    text = (ROOT / "docs" / "TESTING.md").read_text("utf-8")
    table = text.partition("| mistake | seeds |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").rsplit(" | ", 1) for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == [variant.text.rstrip(".") for variant in BROKEN]
    assert [int(row[1]) for row in rows] == [variant.seed + 1 for variant in BROKEN]
