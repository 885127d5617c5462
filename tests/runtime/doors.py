"""A fleet of doors, whose actions can be taken back."""

from __future__ import annotations

from holdfast import Action, Agent, Context, Event, Fleet, on


class Close(Event):
    floor: int = 1


class Knock(Event):
    pass


class Lock(Action):
    door: str
    floor: int

    def undo(self) -> Unlock:
        if self.floor < 0:
            raise ValueError(f"floor {self.floor}")
        if self.floor == 200:
            return Unlock(door=200)  # type: ignore[arg-type]
        if self.floor > 100:
            return "no action"  # type: ignore[return-value]
        return Unlock(door=self.door)


class Unlock(Action):
    door: str

    def undo(self) -> Lock:
        return Lock(door=self.door, floor=1)


class Ring(Action):
    pass


class Door(Agent):
    closed: int = 0

    @on
    def close(self, event: Close, ctx: Context) -> None:
        self.closed += 1
        ctx.emit(Lock(door=ctx.key, floor=event.floor))

    @on
    def knock(self, event: Knock, ctx: Context) -> None:
        ctx.emit(Ring())
        ctx.emit(Ring())


class Guest(Agent, expire_after=5.0):
    knocks: int = 0

    @on
    def knock(self, event: Knock, ctx: Context) -> None:
        self.knocks += 1
        ctx.emit(Lock(door=ctx.key, floor=2))


fleet = Fleet("doors", agents=[Door, Guest])
