"""A fleet whose agents flood each other, and count what reaches them."""

from holdfast import Agent, Context, Event, Fleet, on


class Drop(Event):
    """Becomes two drops for the other agent, as often as it has left."""

    source: str
    number: int
    to: str
    left: int


class Pool(Agent):
    drops: int = 0
    numbers: dict[str, list[int]] = {}  # per source, as they came from outside

    @on
    def dropped(self, event: Drop, ctx: Context) -> None:
        self.drops += 1
        if ctx.sender is None:
            self.numbers.setdefault(event.source, []).append(event.number)
        if event.left > 0:
            for _ in range(2):
                ctx.send(Pool, event.to, Drop(event.source, event.number, ctx.key, event.left - 1))


fleet = Fleet("floods", agents=[Pool])
