"""A fleet that does nothing but call, for the test that kills whoever runs the calls."""

import asyncio
import time
from pathlib import Path

from holdfast import Agent, CallFailed, Context, Event, Fleet, call, on

PATIENT = 10_000  # retries: a kill may cost an attempt, and must not cost the call


class Task(Event):
    log: str
    seconds: float


class Done(Event):
    call: str


@call(concurrency=3)
def work(log: str, seconds: float, call_id: str) -> Done:
    note(log, call_id)
    time.sleep(seconds)
    return Done(call_id)


@call(kind="async", concurrency=20)
async def work_async(log: str, seconds: float, call_id: str) -> Done:
    note(log, call_id)
    await asyncio.sleep(seconds)
    return Done(call_id)


def note(log: str, call_id: str) -> None:
    """One write for one line: they come from several processes."""
    with Path(log).open("ab", buffering=0) as file:
        file.write(f"{call_id}\n".encode())


class Clerk(Agent):
    made: list[str] = []
    done: dict[str, int] = {}
    failed: list[str] = []

    @on
    def told(self, event: Task, ctx: Context) -> None:
        for function in (work, work_async):
            self.made.append(
                ctx.call(
                    function,
                    event.log,
                    event.seconds,
                    reply=Done,
                    timeout=5.0 if event.seconds < 60.0 else 3600.0,
                    retries=PATIENT,
                    backoff=0.01,
                )
            )

    @on
    def finished(self, event: Done, ctx: Context) -> None:
        self.done[event.call] = self.done.get(event.call, 0) + 1

    @on
    def gave_up(self, event: CallFailed, ctx: Context) -> None:
        self.failed.append(f"{event.call}: {event.reason}: {event.error}")


fleet = Fleet("clerks", agents=[Clerk])
