"""What a request asks for besides its body: parameters, each checked, unknown ones refused."""

from __future__ import annotations

from starlette.datastructures import QueryParams

from holdfast.cli.times import parse_time
from holdfast.errors import UsageError
from holdfast.gateway.problems import Problem


class Asked:
    def __init__(self, given: QueryParams, known: tuple[str, ...]) -> None:
        for name in given:
            if name not in known:
                some = f"it takes {', '.join(known)}" if known else "it takes none"
                raise _wrong(f"parameter {name!r} is not known here: {some}")
            if len(given.getlist(name)) > 1:
                raise _wrong(f"parameter {name!r} is given twice: give it once")
        self._given = given

    def text(self, name: str) -> str | None:
        return self._given.get(name)

    def flag(self, name: str) -> bool:
        text = self._given.get(name, "false")
        if text not in ("true", "false"):
            raise _wrong(f"{name}={text!r}: give true or false")
        return text == "true"

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        text = self._given.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise _wrong(f"{name}={text!r} is no whole number: give {least} to {most}")
        if not least <= int(text) <= most:
            raise _wrong(f"{name}={text}: give {least} to {most}")
        return int(text)

    def seconds(self, name: str, default: float, most: float) -> float:
        text = self._given.get(name)
        if text is None:
            return default
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found <= most:
            raise _wrong(f"{name}={text!r}: give 0 to {most:g} seconds")
        return found

    def time(self, name: str) -> float | None:
        text = self._given.get(name)
        if text is None:
            return None
        try:
            return parse_time(text)
        except UsageError as error:
            raise _wrong(f"{name}: {error}") from None


def _wrong(text: str) -> Problem:
    return Problem(400, "Bad Request", text)
