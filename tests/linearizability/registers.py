"""The fleet whose clients write histories: updates are counted, and every reply tells the count."""

from holdfast import Agent, Context, Event, Fleet, on


class Look(Event):
    """Changes nothing, and is answered like an update."""


class Write(Event):
    value: str


class Swap(Event):
    """Writes if nobody has written since the version named."""

    version: int
    value: str


class Held(Event):
    value: str
    version: int
    done: bool = True


class Register(Agent):
    value: str = ""
    version: int = 0

    @on
    def write(self, event: Write, ctx: Context) -> None:
        self.value, self.version = event.value, self.version + 1
        ctx.reply(Held(self.value, self.version))

    @on
    def swap(self, event: Swap, ctx: Context) -> None:
        done = self.version == event.version
        if done:
            self.value, self.version = event.value, self.version + 1
        ctx.reply(Held(self.value, self.version, done))

    @on
    def look(self, event: Look, ctx: Context) -> None:
        ctx.reply(Held(self.value, self.version))


class Add(Event):
    amount: int


class Counted(Event):
    value: int
    version: int
    done: bool = True


class Counter(Agent):
    value: int = 0
    version: int = 0

    @on
    def add(self, event: Add, ctx: Context) -> None:
        self.value, self.version = self.value + event.amount, self.version + 1
        ctx.reply(Counted(self.value, self.version))

    @on
    def look(self, event: Look, ctx: Context) -> None:
        ctx.reply(Counted(self.value, self.version))


class Append(Event):
    item: str


class Listed(Event):
    value: list[str]
    version: int
    done: bool = True


class Sequence(Agent):
    value: list[str] = []
    version: int = 0

    @on
    def append(self, event: Append, ctx: Context) -> None:
        self.value.append(event.item)
        self.version += 1
        ctx.reply(Listed(self.value, self.version))

    @on
    def look(self, event: Look, ctx: Context) -> None:
        ctx.reply(Listed(self.value, self.version))


fleet = Fleet("registers", agents=[Register, Counter, Sequence])
