"""A state of the past that has to be folded again, by the fleet's code in a process of its own: it
may take for ever, print or end the process, and none of that may happen to the gateway.

`python -m holdfast.gateway.past QUESTION` is that process; it answers on its standard output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import msgspec

from holdfast import errors
from holdfast.errors import HoldfastError, TimedOut, UsageError
from holdfast.gateway.settings import Settings
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.supervised import end_with
from holdfast.runtime.untyped import AgentState, connect_untyped

PAST_SECONDS = 20.0


class Question(msgspec.Struct, frozen=True):
    url: str
    fleet: str
    snapshots: str | None
    agent: str
    key: str
    at: float
    parent: int


class Told(msgspec.Struct, frozen=True):
    state: AgentState | None = None
    error: str = ""  # the class
    text: str = ""


def state_then(settings: Settings, agent: str, key: str, at: float) -> AgentState | None:
    """As it was at that time. Blocks for PAST_SECONDS at most."""
    if settings.fleet is None or settings.url is None:
        raise UsageError(
            f"{agent}/{key} has changed since then, and this gateway has no code to fold its past "
            "with: start it with --fleet fleet.py"
        )
    question = Question(
        settings.url, settings.fleet, settings.snapshots, agent, key, at, os.getpid()
    )
    words = [sys.executable, "-m", "holdfast.gateway.past", msgspec.json.encode(question).decode()]
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that whatever it starts ends with it
    )
    try:
        told, complaint = child.communicate(timeout=PAST_SECONDS)
    except subprocess.TimeoutExpired:
        raise TimedOut(
            f"folding the past of {agent}/{key} took longer than {PAST_SECONDS:g} s: "
            "use `holdfast state --at`"
        ) from None
    finally:
        _end(child)
    return _found(told, complaint, f"{agent}/{key}")


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _found(told: bytes, complaint: bytes, who: str) -> AgentState | None:
    try:
        found = msgspec.msgpack.decode(told, type=Told)
    except msgspec.MsgspecError:
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise UsageError(
            f"the fleet's code ended while it folded the past of {who} ({last or 'in silence'}): "
            "see `holdfast check`"
        ) from None
    if found.error:
        kind = getattr(errors, found.error, HoldfastError)
        raise kind(found.text)
    return found.state


def _answer(question: Question) -> Told:
    try:
        with connect_untyped(question.url) as live:
            state = live.state(
                question.agent,
                question.key,
                at=question.at,
                fleet=lambda: load_fleet(question.fleet),
                snapshots=question.snapshots,
            )
        return Told(state)
    except HoldfastError as error:
        return Told(error=type(error).__name__, text=str(error))


def run(text: str) -> None:
    question = msgspec.json.decode(text, type=Question)
    end_with(question.parent)
    answers = os.dup(1)
    os.dup2(2, 1)  # what the fleet's code prints is no answer
    told = msgspec.msgpack.encode(_answer(question))
    with os.fdopen(answers, "wb") as out:
        out.write(told)


if __name__ == "__main__":
    run(sys.argv[1])
