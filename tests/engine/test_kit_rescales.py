"""Goal: the conformance kit notices an engine that rescales wrongly."""

from collections.abc import Callable, Iterator, Sequence
from unittest.mock import patch

import pytest

from holdfast.engine import inheritance
from holdfast.engine.inheritance import Dedupe
from holdfast.engine.port import Claim, Granted, Revoked
from holdfast.engine.stamping import NEVER
from holdfast.errors import HoldfastError
from holdfast.stepping.commit import Head
from tests.engine.broken import Sound
from tests.engine.test_kit import Kit, run


class Leaky(Sound):
    """Takes events where nobody folds any more."""

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        super().rescale(claims, partitions)
        for claim in claims:
            self._partitions[claim.partition].closed = False


class Undead(Sound):
    """Lets a retired partition be claimed, and whoever had it go on."""

    def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
        super().rescale(claims, partitions)
        self.catalog.retired = {}
        for claim in claims:
            self._partitions[claim.partition].epoch -= 1


class Deaf(Sound):
    """Closes no intake."""

    def close_intake(self, claim: Claim) -> None:
        pass


class Shut(Sound):
    """Opens an intake for nobody."""

    def open_intake(self, claim: Claim) -> None:
        pass

    def assignments(
        self, wanted: Sequence[int] | None, generation: int
    ) -> Iterator[Granted | Revoked]:
        for number in wanted or ():
            closed = self._partitions[number].closed
            yield from super().assignments([number], generation)
            self._partitions[number].closed = closed


def inheriting_wrongly(bug: str, name: str, wrong: Callable[..., object]) -> type[Sound]:
    """An engine whose new partitions get something else than they should."""

    class Wrong(Sound):
        def rescale(self, claims: Sequence[Claim], partitions: int) -> None:
            with patch.object(inheritance, name, wrong):
                super().rescale(claims, partitions)

    Wrong.__name__ = bug
    return Wrong


OneWindow = inheriting_wrongly("OneWindow", "union", lambda parents: next(iter(parents)))
NoWindow = inheriting_wrongly("NoWindow", "union", lambda parents: Dedupe({}, {}, {}))
Rejuvenated = inheriting_wrongly("Rejuvenated", "latest", lambda stamps: NEVER)
Timewarped = inheriting_wrongly("Timewarped", "first_head", lambda heads, letters, calls: Head())
Asking = inheriting_wrongly("Asking", "moved", lambda record: record)
Unburied = inheriting_wrongly("Unburied", "letters_of", lambda slots, letters: [])
Uncalled = inheriting_wrongly("Uncalled", "calls_of", lambda slots, calls: [])
Hasty = inheriting_wrongly("Hasty", "check_drained", lambda views: None)


@pytest.mark.planted("conformance kit")
@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (Leaky, "test_a_retired_partition_takes_nothing_any_more", ()),
        (Undead, "test_a_retired_partition_takes_nothing_any_more", ()),
        (Deaf, "test_a_closed_intake_takes_messages_and_nothing_else", ()),
        (Shut, "test_a_closed_intake_stays_closed_until_the_next_claim", ()),
        (Shut, "test_whoever_closed_an_intake_can_open_it", ()),
        (OneWindow, "test_every_child_knows_the_numbers_of_all_parents", (3,)),
        (OneWindow, "test_the_window_of_a_child_ends_where_the_newest_parents_does", ()),
        (NoWindow, "test_ordered_sources_go_on_per_key", ()),
        (Rejuvenated, "test_time_never_goes_back", ()),
        (Timewarped, "test_time_never_goes_back", ()),
        (Asking, "test_who_asked_an_event_that_is_held_looks_at_the_old_partition", ()),
        (Unburied, "test_dead_letters_that_wait_move_and_are_numbered_anew", ()),
        (Uncalled, "test_open_calls_move_to_the_partition_of_their_agent", ()),
        (Hasty, "test_what_is_not_drained_stays_as_it_is", ("event",)),
        (Hasty, "test_what_is_not_drained_stays_as_it_is", ("message",)),
    ],
)
def test_a_broken_rescaling_is_noticed(
    broken: type[Sound], test: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises((AssertionError, HoldfastError, pytest.fail.Exception)):
        run(Kit(broken), test, arguments)
    run(Kit(Sound), test, arguments)
