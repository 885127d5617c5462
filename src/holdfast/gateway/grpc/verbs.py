"""The verbs with one answer: what is asked, on a thread of the crew that it belongs to."""

from __future__ import annotations

from typing import Any

from holdfast.errors import UsageError
from holdfast.gateway.crew import Crews
from holdfast.gateway.endpoints import PAGE
from holdfast.gateway.grpc import answers
from holdfast.gateway.grpc import holdfast_pb2 as pb
from holdfast.gateway.grpc.answers import Row
from holdfast.gateway.grpc.door import Entry
from holdfast.gateway.grpc.intake import Intake
from holdfast.gateway.grpc.values import read_values, write_values
from holdfast.gateway.posts import redriven
from holdfast.gateway.reading import Reader, state_values
from holdfast.gateway.sending import Asker, Question
from holdfast.gateway.settings import Bounds
from holdfast.runtime.untyped import UntypedLive

AFTER_SECONDS = 10.0


class Verbs:
    def __init__(
        self,
        live: UntypedLive,
        crews: Crews,
        bounds: Bounds,
        reader: Reader,
        intake: Intake,
    ) -> None:
        self._live = live
        self._crews = crews
        self._bounds = bounds
        self._reader = reader
        self._intake = intake
        self._asker = Asker(live, bounds)

    async def send(self, request: pb.SendRequest, entry: Entry) -> pb.SendReply:
        urgent = self._intake.is_urgent(request)
        crew = self._crews.urgent if urgent else self._crews.sends
        return await crew.run(self._intake.send, request, entry)

    async def ask(self, request: pb.AskRequest, entry: Entry) -> pb.Values:
        question = Question(
            request.agent, request.key, request.event.type, read_values(request.event)
        )
        if request.HasField("timeout_seconds"):
            question.timeout = request.timeout_seconds
        reply = await self._crews.asks.run(self._asker.ask_question, question, entry.trace)
        return write_values(str(reply["type"]), reply["data"], request.form)

    async def get_state(self, request: pb.GetStateRequest, entry: Entry) -> pb.State:
        after = _given(request, "after")
        at = _given(request, "at")
        timeout, most = AFTER_SECONDS, self._bounds.ask_seconds_max
        if request.HasField("timeout_seconds"):
            timeout = request.timeout_seconds
        if not 0 <= timeout <= most:
            raise UsageError(f"timeout_seconds {timeout:g}: give 0 to {most:g}")
        crew = self._crews.reads if at is None and after is None else self._crews.slow
        found = await crew.run(self._reader.state, request.agent, request.key, after, timeout, at)
        return answers.state(state_values(found), request.form)

    async def list_states(self, request: pb.ListStatesRequest, entry: Entry) -> pb.StatePage:
        def look() -> pb.StatePage:
            values: Row = self._reader.agents(request.agent, request.first, most)
            states = [answers.state(row, request.form) for row in answers.rows(values, "agents")]
            return pb.StatePage(states=states, next=values["next"])

        most = self._most(request)
        return await self._crews.slow.run(look)

    async def get_history(self, request: pb.GetHistoryRequest, entry: Entry) -> pb.History:
        def look() -> pb.History:
            values = self._reader.history(request.agent, request.key, most)
            rows = answers.rows(values, "entries")
            return pb.History(entries=[answers.entry(row, request.form) for row in rows])

        most = self._most(request)
        return await self._crews.slow.run(look)

    async def get_timers(self, request: pb.GetTimersRequest, entry: Entry) -> pb.Timers:
        def look() -> pb.Timers:
            values = self._reader.timers(request.agent, request.key)
            rows = answers.rows(values, "timers")
            return pb.Timers(timers=[answers.timer(row, request.form) for row in rows])

        return await self._crews.reads.run(look)

    async def get_dead_letters(
        self, request: pb.GetDeadLettersRequest, entry: Entry
    ) -> pb.DeadLetters:
        def look() -> pb.DeadLetters:
            values: Row = self._reader.dead_letters(most)
            letters = [
                answers.letter(row, request.form) for row in answers.rows(values, "dead_letters")
            ]
            return pb.DeadLetters(dead_letters=letters, all=values["all"])

        most = self._most(request)
        return await self._crews.slow.run(look)

    async def get_positions(self, request: pb.GetPositionsRequest, entry: Entry) -> pb.Positions:
        values = await self._crews.reads.run(self._reader.partitions)
        rows = answers.rows(values, "partitions")
        return pb.Positions(partitions=[pb.Position(**row) for row in rows])

    async def redrive(self, request: pb.RedriveRequest, entry: Entry) -> pb.RedriveReply:
        receipt = await self._crews.slow.run(redriven, self._live, request.id)
        return pb.RedriveReply(receipt=receipt)

    def _most(self, request: Any) -> int:
        most: int = request.most if request.HasField("most") else PAGE
        if not 1 <= most <= self._bounds.rows_per_page_max:
            raise UsageError(f"most {most}: give 1 to {self._bounds.rows_per_page_max}")
        return most


def _given(request: Any, name: str) -> Any:
    return getattr(request, name) if request.HasField(name) else None
