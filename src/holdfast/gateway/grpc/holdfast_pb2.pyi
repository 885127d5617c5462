from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORM_JSON: _ClassVar[Form]
    FORM_MSGPACK: _ClassVar[Form]
    FORM_STRUCT: _ClassVar[Form]
FORM_JSON: Form
FORM_MSGPACK: Form
FORM_STRUCT: Form

class Values(_message.Message):
    __slots__ = ("type", "json", "msgpack", "structure")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    MSGPACK_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    type: str
    json: bytes
    msgpack: bytes
    structure: _struct_pb2.Struct
    def __init__(self, type: _Optional[str] = ..., json: _Optional[bytes] = ..., msgpack: _Optional[bytes] = ..., structure: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("agent", "key", "event", "source", "seq", "previous", "event_time", "traceparent")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    event: Values
    source: str
    seq: int
    previous: int
    event_time: float
    traceparent: str
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., event: _Optional[_Union[Values, _Mapping]] = ..., source: _Optional[str] = ..., seq: _Optional[int] = ..., previous: _Optional[int] = ..., event_time: _Optional[float] = ..., traceparent: _Optional[str] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("events", "number", "source", "first_seq", "idempotency_key")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    number: int
    source: str
    first_seq: int
    idempotency_key: str
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., number: _Optional[int] = ..., source: _Optional[str] = ..., first_seq: _Optional[int] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class SendReply(_message.Message):
    __slots__ = ("events", "repeats", "receipt")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    events: int
    repeats: int
    receipt: str
    def __init__(self, events: _Optional[int] = ..., repeats: _Optional[int] = ..., receipt: _Optional[str] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("number", "events", "repeats", "receipt", "refused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    events: int
    repeats: int
    receipt: str
    refused: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, number: _Optional[int] = ..., events: _Optional[int] = ..., repeats: _Optional[int] = ..., receipt: _Optional[str] = ..., refused: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("number", "events", "count", "code", "detail")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    number: int
    events: _containers.RepeatedScalarFieldContainer[int]
    count: int
    code: int
    detail: str
    def __init__(self, number: _Optional[int] = ..., events: _Optional[_Iterable[int]] = ..., count: _Optional[int] = ..., code: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class AskRequest(_message.Message):
    __slots__ = ("agent", "key", "event", "timeout_seconds", "form")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    event: Values
    timeout_seconds: float
    form: Form
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., event: _Optional[_Union[Values, _Mapping]] = ..., timeout_seconds: _Optional[float] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("agent", "key", "after", "timeout_seconds", "at", "form")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    after: str
    timeout_seconds: float
    at: float
    form: Form
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., after: _Optional[str] = ..., timeout_seconds: _Optional[float] = ..., at: _Optional[float] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("agent", "key", "version", "updated", "gone", "state")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    version: int
    updated: float
    gone: bool
    state: Values
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., version: _Optional[int] = ..., updated: _Optional[float] = ..., gone: _Optional[bool] = ..., state: _Optional[_Union[Values, _Mapping]] = ...) -> None: ...

class ListStatesRequest(_message.Message):
    __slots__ = ("agent", "first", "most", "form")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    first: str
    most: int
    form: Form
    def __init__(self, agent: _Optional[str] = ..., first: _Optional[str] = ..., most: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class StatePage(_message.Message):
    __slots__ = ("states", "next")
    STATES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[State]
    next: str
    def __init__(self, states: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class GetHistoryRequest(_message.Message):
    __slots__ = ("agent", "key", "most", "form")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    most: int
    form: Form
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., most: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class History(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("position", "now", "origin", "event", "command", "source", "seq", "sender")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    position: int
    now: float
    origin: str
    event: Values
    command: str
    source: str
    seq: int
    sender: str
    def __init__(self, position: _Optional[int] = ..., now: _Optional[float] = ..., origin: _Optional[str] = ..., event: _Optional[_Union[Values, _Mapping]] = ..., command: _Optional[str] = ..., source: _Optional[str] = ..., seq: _Optional[int] = ..., sender: _Optional[str] = ...) -> None: ...

class GetTimersRequest(_message.Message):
    __slots__ = ("agent", "key", "form")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    key: str
    form: Form
    def __init__(self, agent: _Optional[str] = ..., key: _Optional[str] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class Timers(_message.Message):
    __slots__ = ("timers",)
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    timers: _containers.RepeatedCompositeFieldContainer[Timer]
    def __init__(self, timers: _Optional[_Iterable[_Union[Timer, _Mapping]]] = ...) -> None: ...

class Timer(_message.Message):
    __slots__ = ("name", "due", "every", "event")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    due: float
    every: float
    event: Values
    def __init__(self, name: _Optional[str] = ..., due: _Optional[float] = ..., every: _Optional[float] = ..., event: _Optional[_Union[Values, _Mapping]] = ...) -> None: ...

class GetDeadLettersRequest(_message.Message):
    __slots__ = ("most", "form")
    MOST_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    most: int
    form: Form
    def __init__(self, most: _Optional[int] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class DeadLetters(_message.Message):
    __slots__ = ("dead_letters", "all")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    all: int
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., all: _Optional[int] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("id", "agent", "key", "event", "command", "error", "trace", "now", "redriven")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    key: str
    event: Values
    command: str
    error: str
    trace: str
    now: float
    redriven: bool
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., key: _Optional[str] = ..., event: _Optional[_Union[Values, _Mapping]] = ..., command: _Optional[str] = ..., error: _Optional[str] = ..., trace: _Optional[str] = ..., now: _Optional[float] = ..., redriven: _Optional[bool] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RedriveReply(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: str
    def __init__(self, receipt: _Optional[str] = ...) -> None: ...

class GetPositionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Positions(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("partition", "inbox", "folded", "lag")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    FOLDED_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    partition: int
    inbox: int
    folded: int
    lag: int
    def __init__(self, partition: _Optional[int] = ..., inbox: _Optional[int] = ..., folded: _Optional[int] = ..., lag: _Optional[int] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("after", "agent", "key", "form")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    after: str
    agent: str
    key: str
    form: Form
    def __init__(self, after: _Optional[str] = ..., agent: _Optional[str] = ..., key: _Optional[str] = ..., form: _Optional[_Union[Form, str]] = ...) -> None: ...

class ActionPage(_message.Message):
    __slots__ = ("actions", "cursor")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedCompositeFieldContainer[Action]
    cursor: str
    def __init__(self, actions: _Optional[_Iterable[_Union[Action, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class Action(_message.Message):
    __slots__ = ("id", "agent", "key", "action", "now", "expires_at", "priority", "undoes", "why", "traceparent")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    key: str
    action: Values
    now: float
    expires_at: float
    priority: str
    undoes: str
    why: str
    traceparent: str
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., key: _Optional[str] = ..., action: _Optional[_Union[Values, _Mapping]] = ..., now: _Optional[float] = ..., expires_at: _Optional[float] = ..., priority: _Optional[str] = ..., undoes: _Optional[str] = ..., why: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class ChangePage(_message.Message):
    __slots__ = ("changes", "cursor")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[State]
    cursor: str
    def __init__(self, changes: _Optional[_Iterable[_Union[State, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...
