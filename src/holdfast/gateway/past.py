"""The past, one state or a query over all, that has to be folded again by the fleet's code: in a
process of its own, since that code may take for ever, take all memory, print or end the process,
and none of that may happen to the gateway.

`python -m holdfast.gateway.past QUESTION` is that process; it answers on its standard output.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast import errors
from holdfast.errors import HoldfastError, TimedOut, UsageError
from holdfast.gateway.settings import Settings
from holdfast.model.fleet import FleetModel
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.supervised import end_with
from holdfast.runtime.untyped import AgentState, UntypedLive, connect_untyped

if TYPE_CHECKING:
    from holdfast.view.sql.limits import Answer

PAST_SECONDS = 20.0
PAST_BYTES_MAX = 2 * 1024**3  # of memory


class Question(msgspec.Struct, frozen=True):
    """Of one agent, or in SQL."""

    url: str
    fleet: str
    snapshots: str | None
    at: float
    parent: int
    agent: str = ""
    key: str = ""
    sql: str | None = None


class Told(msgspec.Struct, frozen=True):
    state: AgentState | None = None
    answer: str = ""  # of a query, as JSON: integers may be wider than others have them
    error: str = ""  # the class
    text: str = ""


def state_then(settings: Settings, agent: str, key: str, at: float) -> AgentState | None:
    """As it was at that time. Blocks for PAST_SECONDS at most."""
    question = _question(settings, at, f"{agent}/{key} has changed since then")
    question = msgspec.structs.replace(question, agent=agent, key=key)
    return _told(question, f"{agent}/{key}", "`holdfast state --at`").state


def answer_then(settings: Settings, sql: str, at: float) -> Answer:
    """Over the fleet as it was at that time. Blocks for PAST_SECONDS at most."""
    from holdfast.view.sql.limits import Answer

    question = _question(settings, at, "a query with a time folds the past")
    question = msgspec.structs.replace(question, sql=sql)
    told = _told(question, "the fleet", "`holdfast query --at`")
    return msgspec.convert(json.loads(told.answer), Answer, strict=False)


def _question(settings: Settings, at: float, why: str) -> Question:
    if settings.fleet is None or settings.url is None:
        raise UsageError(
            f"{why}, and this gateway has no code to do it with: start it with --fleet fleet.py"
        )
    return Question(settings.url, settings.fleet, settings.snapshots, at, os.getpid())


def _told(question: Question, who: str, instead: str) -> Told:
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast.gateway.past"],
        stdin=subprocess.PIPE,  # a question may be longer than a command line
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that whatever it starts ends with it
    )
    try:
        told, complaint = child.communicate(msgspec.json.encode(question), PAST_SECONDS)
    except subprocess.TimeoutExpired:
        raise TimedOut(
            f"folding the past of {who} took longer than {PAST_SECONDS:g} s: use {instead}"
        ) from None
    finally:
        _end(child)
    return _found(told, complaint, who)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _found(told: bytes, complaint: bytes, who: str) -> Told:
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
    return found


def _answer(question: Question) -> Told:
    try:
        with connect_untyped(question.url) as live:
            fleet, snapshots = partial(load_fleet, question.fleet), question.snapshots
            if question.sql is not None:
                return Told(answer=_queried(live, question.sql, question.at, fleet, snapshots))
            state = live.state(
                question.agent, question.key, at=question.at, fleet=fleet, snapshots=snapshots
            )
        return Told(state)
    except HoldfastError as error:
        return Told(error=type(error).__name__, text=str(error))


def _queried(
    live: UntypedLive, sql: str, at: float, fleet: Callable[[], FleetModel], snapshots: str | None
) -> str:
    from holdfast.view.sql.queries import answer  # its libraries are an extra

    found = answer(live, sql, at=at, fleet=fleet, snapshots=snapshots)
    return json.dumps(dataclasses.asdict(found))


def run(text: str) -> None:
    question = msgspec.json.decode(text, type=Question)
    end_with(question.parent)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (PAST_BYTES_MAX, most))  # the jail of SQL sets its own
    answers = os.dup(1)
    os.dup2(2, 1)  # what the fleet's code prints is no answer
    told = msgspec.msgpack.encode(_answer(question))
    with os.fdopen(answers, "wb") as out:
        out.write(told)


if __name__ == "__main__":
    run(sys.stdin.read())
