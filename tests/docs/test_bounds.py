"""Goal: the table of bounds tells every bound that the code has, each with its default."""

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.engine.port import Limits
from holdfast.engine.urls import parse
from holdfast.view.sql.limits import Limits as QueryLimits
from tests.docs.documents import ROOT, tables_of

FIXED = {
    "size of one event or action, bytes": "EVENT_BYTES_MAX",
    "events in one send": "EVENTS_PER_SEND_MAX",
    "size of one send, bytes": "FRAME_BYTES_MAX",
    "size of one agent's state, bytes": "STATE_BYTES_MAX",
    "characters of a key": "KEY_LENGTH_MAX",
    "sequence number of a source": "SEQ_MAX",
    "dedupe window of a source, numbers": "WINDOW",
    "timers of one agent": "TIMERS_PER_AGENT_MAX",
    "characters of a timer's name": "TIMER_NAME_LENGTH_MAX",
    "shortest timer, seconds": "TIMER_SECONDS_MIN",
    "open calls of one agent": "CALLS_PER_AGENT_MAX",
    "retries of one call": "RETRIES_MAX",
    "size of the arguments of one call, bytes": "ARGUMENTS_BYTES_MAX",
    "hops of a message": "HOPS_MAX",
    "characters of a text, items of a list of a compiled agent": "WIDTH_MAX",
    "blocks inside each other in a handler of a compiled agent": "_BLOCKS_MAX",
    "classes that one compiled agent class makes": "OUTPUTS_MAX",
    "classes of events that one compiled agent class handles, of agents it sends to": "CLASSES_MAX",
    "events one agent holds (deferred or paused)": "HELD_PER_AGENT_MAX",
    "refused sends without a source that are known again when they are repeated, per handle": (
        "UNFINISHED_SENDS"
    ),
    "events in one commit": "EVENTS_PER_COMMIT_MAX",
    "urgent events in one commit": "URGENT_PER_COMMIT_MAX",
    "events in one commit, where all agents are compiled": "COMPILED_PER_COMMIT_MAX",
    "events in one commit per agent, where all are compiled, if that is more": (
        "EVENTS_PER_AGENT_MAX"
    ),
    "timers fired, and agents told of a ground stop, in one commit": "FIRED_PER_COMMIT_MAX",
    "size of one commit, bytes": "COMMIT_BYTES_MAX",
    "time one event may run, seconds": "EVENT_SECONDS_MAX",
    "silence of a worker, seconds": "SILENT_SECONDS",
    "time a commit may take, seconds": "COMMIT_SECONDS_MAX",
    "time the answer to an ask is kept, seconds": "ANSWER_SECONDS",
    "characters of the error in a dead letter": "ERROR_LENGTH_MAX",
    "characters of the reason for a compensation, a failed action, an override or a ground stop": (
        "WHY_LENGTH_MAX"
    ),
    "characters of the name of who says so": "BY_LENGTH_MAX",
    "actions acknowledged in one call": "IDS_AT_ONCE_MAX",
    "actions that one page of pending ones passes over": "LOOKED_AT_MAX",
    "characters of the traceback in a dead letter": "TRACE_LENGTH_MAX",
    "tracebacks stored in one commit": "TRACES_PER_COMMIT_MAX",
    "size of the reply of one call, bytes": "RESULT_BYTES_MAX",
    "characters of the error in a `CallFailed`": "CALL_ERROR_LENGTH_MAX",
    "calls of one function in memory": "CALLS_HELD_MAX",
    "arguments of one function's calls in memory, bytes": "ARGUMENTS_HELD_BYTES_MAX",
    "replies that wait for their inbox": "ANSWERS_WAITING_MAX",
    "replies that wait for their inbox, bytes": "ANSWERS_WAITING_BYTES_MAX",
    "pause before the next attempt of a call, seconds": "PAUSE_SECONDS_MAX",
    "import of a function's module, seconds": "IMPORT_SECONDS_MAX",
    "time an async function may block its event loop, seconds": "LOOP_SECONDS_MAX",
    "silence of the process of async functions, seconds": "SILENT_SECONDS_MAX",
    "time an async function has to end when it is cancelled, seconds": "CANCEL_SECONDS_MAX",
    "size of a query, bytes": "SQL_BYTES_MAX",
    "tables that one query names": "TABLES_PER_QUERY_MAX",
    "expressions inside each other in a query": "NESTED_MAX",
    "rows of one view": "ROWS_PER_VIEW_MAX",
    "size of one row of a view, bytes": "ROW_BYTES_MAX",
    "partitions, apart from retired ones": "PARTITIONS_MAX",
    "characters of a snapshot's name": "NAME_LENGTH_MAX",
    "time a snapshot may take, seconds": "CREATE_SECONDS_MAX",
    "messages that wait in a bridge, bytes": "MQTT_WAITING_BYTES_MAX",
    "file of rejected MQTT messages, bytes": "REJECTED_FILE_BYTES_MAX",
    "payload that is kept of a rejected MQTT message, bytes": "REJECTED_PAYLOAD_BYTES_MAX",
    "connections of readers to one worker on Kafka": "CONNECTIONS_MAX",
    "hot keys that metrics name, per partition": "HOT_KEYS_TOLD_MAX",
    "spans that wait to be exported, per process": "SPANS_WAITING_MAX",
    "actions of one commit whose spans name them, bytes": "ISSUED_BYTES_MAX",
    "large states that metrics name, per partition": "LARGE_STATES_TOLD_MAX",
    "dead letters of one partition that metrics count one by one": "LETTERS_COUNTED_MAX",
}
# How the work is cut into pieces; nobody is refused anything at these.
INNER = {
    "ADDRESSES_MAX",
    "APPEND_BYTES_MAX",
    "RECEIVE_MAX",
    "MQTT_KEYS_KNOWN_MAX",
    "MQTT_TOPICS_KNOWN_MAX",
    "MQTT_WRITE_BYTES_MAX",
    "SOURCE_LENGTH_MAX",
    "ATTEMPTS_MAX",
    "BODY_BYTES_MAX",
    "BUNDLE_BYTES_MAX",
    "BYTES_PER_READ_MAX",
    "CHUNKS_MAX",
    "COMMITS_MAX",
    "DELTAS_MAX",
    "DELTA_BYTES_MAX",
    "DESCRIPTORS_MAX",
    "FILES_MAX",
    "SWEPT_DELTA_BYTES_MAX",
    "FRAMES_BYTES_MAX",
    "KEPT_BYTES_MAX",
    "KEPT_MAX",
    "KEYS_MAX",
    "KEYS_COUNTED_MAX",
    "FRAMES_SAMPLED_MAX",
    "ROWS_SAMPLED_MAX",
    "STATES_SAMPLED_MAX",
    "LARGE_STATES_KNOWN_MAX",
    "LOOK_SECONDS_MAX",
    "LINES_MAX",
    "QUICK_BYTES_MAX",
    "PARCELS_MAX",
    "PART_BYTES_MAX",
    "POSITIONS_KNOWN_MAX",
    "PROBLEM_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "REPLY_BYTES_MAX",
    "REQUEST_BYTES_MAX",
    "WAITING_ENTRIES_MAX",
    "IDLE_SECONDS_MAX",
    "INTERVAL_SECONDS_MAX",
    "NAME_BYTES_MAX",
    "OBJECT_BYTES_MAX",
    "OVER_MAX",
    "MESSAGES_MAX",
    "MESSAGE_BYTES_MAX",
    "REASONS_MAX",
    "WAL_BYTES_MAX",
    "READERS_MAX",
    "WAIT_SECONDS_MAX",
    "STRETCH_MAX",
    "_RAW_BYTES_MAX",
    "_ROUTES_MAX",
}
_CONSTANT = re.compile(r"^(_?[A-Z][A-Z_]*)(?::[^=]+)? = ", re.MULTILINE)


def constants() -> Iterator[tuple[str, object]]:
    """Every constant that a module of the lower layers defines by itself."""
    for layer in ("model", "stepping", "engine", "blob", "runtime", "view", "gateway.mqtt"):
        package = importlib.import_module(f"holdfast.{layer}")
        for found in pkgutil.walk_packages(package.__path__, f"holdfast.{layer}."):
            module = importlib.import_module(found.name)
            if module.__file__ is not None:
                for name in _CONSTANT.findall(Path(module.__file__).read_text("utf-8")):
                    yield name, getattr(module, name)


def rows() -> list[list[str]]:
    tables = tables_of((ROOT / "docs" / "operating.md").read_text("utf-8"))
    (table,) = [each for each in tables if each[0][0] == "bound"]
    return table[1:]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_every_setting_is_told_with_its_default() -> None:
    told = {
        setting.strip("`"): number(default) for _, default, setting, _ in rows() if "`" in setting
    }
    assert told == dataclasses.asdict(Limits())


def test_every_setting_can_be_given_in_the_url() -> None:
    for _, _, setting, _ in rows():
        if "`" in setting:
            limits = parse(f"sqlite:x?{setting.strip('`')}=7").limits
            assert dataclasses.asdict(limits)[setting.strip("`")] == 7


def test_every_fixed_bound_is_told_with_its_value() -> None:
    values = dict(constants())
    told = {bound: number(default) for bound, default, setting, _ in rows() if setting == "fixed"}
    assert told == {bound: values[name] for bound, name in FIXED.items()}


def test_every_bound_of_queries_is_told_with_its_default() -> None:
    of_queries = ("query --", "Limits of SQL")
    told = [number(default) for _, default, setting, _ in rows() if setting.startswith(of_queries)]
    assert sorted(told) == sorted(dataclasses.asdict(QueryLimits()).values())


def test_every_bound_in_the_code_is_told() -> None:
    assert Path(holdfast.__file__).is_relative_to(ROOT), "another holdfast is under test"
    bounds = {name for name, _ in constants() if name.endswith("_MAX")}
    assert bounds - INNER - set(FIXED.values()) == set(), "put them into docs/operating.md"
    assert bounds >= INNER, "INNER names constants that are gone"


def test_every_bound_says_what_happens() -> None:
    assert [bound for bound, _, _, what in rows() if len(what) < 5] == []
