"""What the exporter of the SDK says when a receiver takes nothing: kept for a line of ours.

It tells of every attempt, at length; none of that is shown.
"""

from __future__ import annotations

import logging


class Complaints(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.why = ""  # the last one, in a few words

    def filter(self, record: logging.LogRecord) -> bool:
        match record.args:
            case (*_, int() as code, str() as reason):  # gave up after an answer
                self.why = f"{code} {reason}"
            case (BaseException() as error, *_) | (*_, BaseException() as error):
                self.why = _in_short(error)
            case (str() as reason, *_, float()):  # tries again after an answer
                self.why = reason
        return False


def _in_short(error: BaseException) -> str:
    """Of the error that began it: those around it name pools and retries."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    told = error.strerror if isinstance(error, OSError) else None
    return told or str(error) or type(error).__name__
