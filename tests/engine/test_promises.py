"""Goal: every sentence of the engine port is shown by a test of the kit; a new one needs one."""

from pathlib import Path

from holdfast.engine import port
from holdfast.testing.conformance import EngineConformance
from holdfast.testing.conformance.promises import promises_of
from tests.engine.sentences import Sentences, astray, sentences_of, unclaimed

ROOT = Path(__file__).parents[2]
# Sentences that promise nothing an engine could break, and where they are shown instead.
ELSEWHERE = {
    "The runtime folds the one into the other": "tests/runtime/test_troubles.py",
    "Changed through the engine's URL": "tests/docs/test_bounds.py",
    "Commits of releases that made no notes have none": "tests/olddata/test_old_data.py",
    "past it a partition waits for its relay": "tests/runtime/test_semantics_messages.py",
    "events gather so long between commits": "tests/runtime/test_gathering.py",
}
NOT_GUARANTEED = [
    "that an append which raised anything but a refusal did not happen: send it again, it dedupes",
    "that two partitions commit together",
    "order between partitions",
    "fairness between sources",
    "that a `View` is current",
    "that it can be read after its engine was closed",
    "that the other calls of one claim may overlap: its owner makes them one after the other",
]


def of_the_port() -> Sentences:
    return sentences_of(Path(port.__file__).read_text("utf-8"))


def quotes() -> list[str]:
    tests = [getattr(EngineConformance, name) for name in dir(EngineConformance)]
    return [quote for test in tests for quote in promises_of(test)]


def test_every_sentence_is_claimed_by_a_test() -> None:
    left = unclaimed(of_the_port().promised, [*quotes(), *ELSEWHERE])
    assert left == [], "give the kit a test for each, marked with @promise"


def test_every_claim_quotes_one_sentence() -> None:
    assert astray(of_the_port().promised, [*quotes(), *ELSEWHERE]) == []


def test_only_tests_claim() -> None:
    for name in dir(EngineConformance):
        assert name.startswith("test_") or not promises_of(getattr(EngineConformance, name))


def test_what_is_not_guaranteed_is_known() -> None:
    assert of_the_port().not_promised == NOT_GUARANTEED


def test_what_is_shown_elsewhere_is_there() -> None:
    for place in ELSEWHERE.values():
        assert "def test_" in (ROOT / place).read_text("utf-8")


def test_sentences_are_found_wherever_they_stand() -> None:
    source = '''"""A port. It keeps.

Guaranteed by every engine:
- one thing; another
  thing.
- A third.

Not guaranteed:
- speed; taste.
"""
CONSTANT = 1  # not of a class

class Engine:
    field: int  # a comment

    def call(self) -> None:
        """Does it. Raises; and more.

        A paragraph.
        """
'''
    found = sentences_of(source)
    of_the_module = ["A port", "It keeps", "one thing", "another thing", "A third"]
    of_the_call = ["Does it", "Raises", "and more", "A paragraph"]
    assert found.promised == [*of_the_module, *of_the_call, "a comment"]
    assert found.not_promised == ["speed", "taste"]


def test_a_sentence_without_a_test_is_found() -> None:
    """Each sentence of the port, once the only quote of it is gone."""
    everything = of_the_port().promised
    assert len(everything) > 50
    assert unclaimed([*everything, "It makes coffee"], [*quotes(), *ELSEWHERE]) == [
        "It makes coffee"
    ]


def test_a_claim_that_quotes_nothing_or_too_much_is_found() -> None:
    assert astray(["one thing", "another thing"], ["one", "thing", "coffee"]) == [
        "thing",
        "coffee",
    ]
