"""What handlers asked for, and what it is about: records that the context makes and others read."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from holdfast.model.calls import CallFunction
from holdfast.model.event import Action, Event
from holdfast.model.tracing import onward


class Sender(NamedTuple):
    """The agent that a message came from."""

    agent: str
    key: str


class Timer(NamedTuple):
    """One event an agent will get later. `period` is 0 for a timer that fires once."""

    name: str
    due: float
    event: Event
    period: float = 0.0


class OpenCall(NamedTuple):
    """What an agent remembers of a call until its reply is taken."""

    function: str
    digest: str
    reply: str


class Subject(Protocol):
    """What the context needs to know of the agent it points at."""

    agent_name: str
    key: str
    version: int

    def timers(self) -> dict[str, Timer]: ...
    def calls(self) -> dict[str, OpenCall]: ...


class Sent(NamedTuple):
    """A message on its way: who sends it, to whom, and how many hops it has made."""

    sender: Subject
    agent: str
    key: str
    event: Event
    hops: int
    now: float
    trace: str = ""  # the context that it carries on


class Emitted(NamedTuple):
    """An action with all that its identity derives from."""

    subject: Subject
    version: int
    action: Action
    now: float
    undoes: str = ""  # the id of the action that an operator has taken back, and why
    why: str = ""
    by: str = ""  # the operator who had it issued
    withheld: bool = False  # by a ground stop
    trace: str = ""


class Armed(NamedTuple):
    """A timer that was set; it may have been replaced or cancelled since."""

    subject: Subject
    timer: Timer


class Called(NamedTuple):
    """A call that was made, with all that running it takes."""

    subject: Subject
    id: str
    function: CallFunction
    arguments: bytes
    reply: type[Event]
    timeout: float
    retries: int
    backoff: float
    now: float
    trace: str = ""


class LogLine(NamedTuple):
    level: str
    agent: str
    key: str
    text: str
    trace: str = ""


class Traced(NamedTuple):
    """An event of a trace that was folded, or that failed: what its span tells."""

    given: str  # the context it came with
    agent: str
    key: str
    version: int
    event: str
    position: int
    origin: str
    now: float
    error: str = ""

    @property
    def trace(self) -> str:
        """Its own context, which what comes of it has. One that failed has no version of its own:
        the position tells it from others."""
        place = ("failed", self.position) if self.error else ()
        return onward(self.given, self.agent, self.key, self.version, *place)


Mark: TypeAlias = tuple[int, int, int, int, int, int, int]


class Effects:
    """What handlers asked for since the last commit, in order."""

    __slots__ = ("actions", "armed", "calls", "logs", "messages", "replies", "traced")

    def __init__(self) -> None:
        self.actions: list[Emitted] = []
        self.messages: list[Sent] = []
        self.replies: list[tuple[int, Event]] = []
        self.armed: list[Armed] = []
        self.logs: list[LogLine] = []
        self.calls: list[Called] = []
        self.traced: list[Traced] = []

    def mark(self) -> Mark:
        return (
            len(self.actions),
            len(self.messages),
            len(self.replies),
            len(self.armed),
            len(self.logs),
            len(self.calls),
            len(self.traced),
        )

    def rewind(self, mark: Mark) -> None:
        """Forget everything recorded after `mark`: the event failed."""
        del self.actions[mark[0] :]
        del self.messages[mark[1] :]
        del self.replies[mark[2] :]
        del self.armed[mark[3] :]
        del self.logs[mark[4] :]
        del self.calls[mark[5] :]
        del self.traced[mark[6] :]

    def clear(self) -> None:
        self.rewind((0, 0, 0, 0, 0, 0, 0))
