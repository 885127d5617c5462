"""Goal: a fleet knows the actions that take its actions back before the first one is issued."""

from holdfast import Action, Agent, Context, Event, Fleet, on


class Shut(Event):
    pass


class Log(Action):
    pass


class Unlock(Action):
    def undo(self) -> Log:
        return Log()


class Lock(Action):
    def undo(self) -> Action:
        return _opposite()


class Door(Agent):
    @on
    def shut(self, event: Shut, ctx: Context) -> None:
        ctx.emit(Lock())


def _opposite() -> Action:
    return Unlock()


def test_undos_are_found_in_annotations_and_in_code() -> None:
    fleet = Fleet("doors", agents=[Door])
    assert set(fleet.actions) == {"Lock", "Unlock", "Log"}
