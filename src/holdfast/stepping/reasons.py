"""Why an event failed, as text that can be stored: short, and without halves of characters."""

from __future__ import annotations

import traceback

ERROR_LENGTH_MAX = 2_000
TRACE_LENGTH_MAX = 8_000


def reason_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as worse:
        text = f"its text cannot be made ({type(worse).__name__})"
    return storable(f"{type(error).__name__}: {text}"[:ERROR_LENGTH_MAX])


def trace_of(error: BaseException) -> str:
    return storable("".join(traceback.format_exception(error))[-TRACE_LENGTH_MAX:])


def place_of(error: BaseException) -> str:
    """Where it was raised: far cheaper than the whole trace, for a flood of failures."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return storable(f'File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')


def storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
