"""Goal: what is said of events that wait is of now, however long the look at them takes."""

from holdfast.engine.memory import MemoryEngine
from holdfast.engine.port import View
from holdfast.runtime.lagging import lags
from holdfast.stepping.inputs import StoredFrame
from holdfast.testing.conformance import FLEET
from holdfast.testing.conformance.workbench import append, parcel

LOOK_SECONDS = 4.0


class Slow:
    """A view whose frames have to be fetched from elsewhere first."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.now = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)

    def frames(self, position: int, events_max: int) -> list[StoredFrame]:
        found = self._view.frames(position, events_max)
        self.now = found[0].stamp + LOOK_SECONDS
        return found


def test_the_look_is_part_of_how_long_an_event_has_waited() -> None:
    engine = MemoryEngine(FLEET, 1)
    append(engine, parcel(["a"]))
    slow = Slow(engine.view(0))
    engine.view = lambda *_: slow  # type: ignore[method-assign,assignment]
    (lag,) = lags(engine, lambda: slow.now)
    assert (lag.waiting, lag.oldest_seconds) == (1, LOOK_SECONDS)
