"""The bounds of a query, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

SQL_BYTES_MAX = 64 * 1024
TABLES_PER_QUERY_MAX = 100


@dataclass(frozen=True)
class Limits:
    """What one query may take. What happens at each bound is said in docs/operating.md."""

    seconds: float = 10.0  # to run it, its tables being read
    rows_max: int = 10_000  # of the answer; what is more is left out, and `truncated` says so
    result_bytes_max: int = 16 * 1024 * 1024  # the same, by size
    memory_bytes: int = 512 * 1024 * 1024  # beside the tables, which all queries share
    log_rows_max: int = 200_000  # of events, and of actions: the newest are read
    at_once_max: int = 2  # queries that run at the same time: others wait
    wait_seconds: float = 10.0  # for one of these to end
    fold_seconds: float = 120.0  # to fold the past, with `at`


@dataclass(frozen=True)
class Answer:
    columns: list[tuple[str, str]]  # name, type
    rows: list[list[object]]  # as JSON has them
    positions: dict[int, int]  # by partition: all events before it are in the answer
    truncated: bool = False  # there are more rows
    notes: list[str] = field(default_factory=list)  # what was not read, in words
