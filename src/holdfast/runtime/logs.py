"""The one place that sets logging up, for `holdfast run` and every process it starts.

Lines are text for people, or with HOLDFAST_LOG_FORMAT=json one JSON object each, with the names
that metrics and history have: fleet, process, partition, agent, key, position. Whoever logs hands
those in as `extra=ids(partition=…)`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType

from holdfast.errors import UsageError
from holdfast.model.tracing import span_id, trace_id
from holdfast.runtime.metering.board import own_name

FORMAT = "HOLDFAST_LOG_FORMAT"
FORMATS = ("text", "json")

_log = logging.getLogger("holdfast.process")


def ids(**names: object) -> dict[str, object]:
    """What a line is about, for `extra=`."""
    return {"ids": names}


def trace_ids(context: str) -> dict[str, object]:
    """Of what belongs to a trace, for `ids`."""
    return {"trace_id": trace_id(context), "span_id": span_id(context)} if context else {}


class JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self.fleet = ""
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it: JSON has no raw line ends."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "fleet": self.fleet,
            "process": self._process,
            "pid": record.process,
            **getattr(record, "ids", {}),
        }
        role, _, number = self._process.partition("-")
        if role == "worker" and number.isdigit():
            line.setdefault("worker", int(number))
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        told = {name: value for name, value in line.items() if value != ""}
        text = json.dumps(told, ensure_ascii=False, default=str)
        return text.encode("utf-8", "backslashreplace").decode()  # what is no text is escaped


_json: JsonLines | None = None  # while lines are JSON


def set_up(process: str | None = None) -> None:
    """For this process, once it starts; in the format that the environment names."""
    global _json  # noqa: PLW0603 (logging is one per process, too)
    wanted = os.environ.get(FORMAT) or "text"
    if wanted not in FORMATS:
        raise UsageError(f"{FORMAT}={wanted!r}: use {' or '.join(FORMATS)}")
    if wanted == "text":
        _json = None
        logging.basicConfig(level=logging.WARNING, format="holdfast: %(message)s")
        return
    _json = JsonLines(process or own_name())
    handler = logging.StreamHandler()
    handler.setFormatter(_json)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def fleet_is(name: str) -> None:
    """Known once the program or the data is loaded; from here on lines name it."""
    if _json is not None:
        _json.fleet = name


def complain(text: str) -> None:
    """Why a process ends: exactly one line on standard error, whatever the text holds."""
    one = " ".join(text.split())
    if _json is None and os.environ.get(FORMAT) == "json":
        set_up("command")  # it ends before it has come to that
    if _json is not None:
        _log.error("%s", one)
    else:
        print(f"holdfast: {one}", file=sys.stderr)


def say(text: str) -> None:
    """For standard output: that it runs, that it has stopped."""
    if _json is not None:
        record = _log.makeRecord(_log.name, logging.INFO, __file__, 0, text, (), None)
        text = _json.format(record)
    print(text, flush=True)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _uncaught_in_thread(about: threading.ExceptHookArgs) -> None:
    if about.exc_value is not None:
        _uncaught(about.exc_type, about.exc_value, about.exc_traceback)
