"""What goes wrong, as HTTP says it: a status, and one line in a problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from holdfast import errors
from holdfast.errors import HoldfastError

PROBLEM = "application/problem+json"
RETRY_SECONDS = 1

# The first class that fits counts.
_STATUS: list[tuple[type[HoldfastError], int]] = [
    (errors.UsageError, 422),
    (errors.NotYet, 501),
    (errors.YourBug, 409),
    (errors.TheirBug, 500),
    (errors.Backlog, 429),
    (errors.Busy, 429),
    (errors.TimedOut, 504),
    (errors.TryAgain, 503),
    (errors.TooManySources, 429),
    (errors.AccessDenied, 403),
    (errors.Missing, 404),
    (errors.GiveUp, 409),
]


class Problem(Exception):
    """A refusal of the gateway's own."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = dict(more or {})


def status_of(error: HoldfastError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem_of(error: HoldfastError, more: Mapping[str, object] | None = None) -> Problem:
    status = status_of(error)
    again = isinstance(error, errors.TryAgain) or status == 429
    headers = {"retry-after": str(RETRY_SECONDS)} if again else {}
    return Problem(status, type(error).__name__, str(error), headers, more)


def document(problem: Problem) -> bytes:
    return msgspec.json.encode(
        {
            "type": f"urn:holdfast:problem:{problem.title.replace(' ', '-').lower()}",
            "title": problem.title,
            "status": problem.status,
            "detail": " ".join(problem.detail.split()),
            **problem.more,
        }
    )


def response_of(problem: Problem) -> Response:
    return Response(document(problem), problem.status, problem.headers, PROBLEM)


# Handlers of Starlette.


def on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return response_of(error)


def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return response_of(problem_of(error))


def on_http_error(request: Request, error: Exception) -> Response:
    """What the router refuses by itself: no such path, or not with this method."""
    assert isinstance(error, HTTPException)
    title = str(error.detail)
    detail = f"{request.method} {request.url.path}: {title}: /openapi.json lists what there is"
    return response_of(Problem(error.status_code, title, detail, error.headers))


def on_bug(request: Request, error: Exception) -> Response:
    detail = f"{type(error).__name__} in the gateway: its log has more"
    return response_of(Problem(500, "Internal Server Error", detail))
