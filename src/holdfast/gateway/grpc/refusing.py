"""What goes wrong, as gRPC says it: a status, one line, and when to come back."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from holdfast.errors import HoldfastError
from holdfast.gateway.problems import Problem, document, problem_of

DETAIL_LENGTH = 1_000  # characters; the rest is in problem-bin
PROBLEM_BYTES = 4_096  # what clients take as a trailer without being asked
PUSHBACK = "grpc-retry-pushback-ms"  # clients that try again by themselves know it

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def as_problem(error: HoldfastError | Problem) -> Problem:
    return error if isinstance(error, Problem) else problem_of(error)


def code_of(problem: Problem) -> grpc.StatusCode:
    return _CODES.get(problem.status, grpc.StatusCode.UNKNOWN)


def detail_of(problem: Problem) -> str:
    return " ".join(problem.detail.split())[:DETAIL_LENGTH]


def trailers_of(problem: Problem) -> tuple[tuple[str, str | bytes], ...]:
    text = document(problem)
    if len(text) > PROBLEM_BYTES:
        text = document(Problem(problem.status, problem.title, detail_of(problem)))
    found: list[tuple[str, str | bytes]] = [("problem-bin", text)]
    if "retry-after" in problem.headers:
        found.append((PUSHBACK, str(int(problem.headers["retry-after"]) * 1000)))
    return tuple(found)


async def refuse(context: Any, error: HoldfastError | Problem) -> NoReturn:
    problem = as_problem(error)
    await context.abort(code_of(problem), detail_of(problem), trailers_of(problem))
    raise AssertionError("abort always raises")
