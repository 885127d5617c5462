"""What brokers and the client library complain of, as our errors: what happened and what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    DescribeClusterResult,
    TopicDescription,
)

from holdfast.engine.kafka.clients import made
from holdfast.engine.kafka.settings import KafkaSettings
from holdfast.errors import (
    AccessDenied,
    Busy,
    HoldfastError,
    Missing,
    Unreachable,
    UsageError,
)

MEET_SECONDS = 15.0  # for the first answer of a broker
DOWN_SECONDS = 5.0  # the same, where none of them takes a connection
COMPLAINT_SECONDS = 5.0  # a client that still has trouble says so every second or two

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topics",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "groups",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional ids",
}
# Which permission is missing, by what we were doing; brokers tell only on what.
_PERMISSIONS = (
    ("topics", "making", "CREATE"),
    ("topics", "appending", "WRITE"),
    ("topics", "committing", "WRITE"),
    ("topics", "deleting", "DELETE"),
    ("topics", "reading the settings", "DESCRIBE_CONFIGS"),
    ("topics", "reading", "READ"),
    ("topics", "", "DESCRIBE"),
    ("groups", "", "READ"),
    ("transactional ids", "", "WRITE"),
)
_WRONG_PASSWORD = {KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION}
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"  # so the client library says it
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_TOO_OLD = {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
_STRANGERS = {KafkaError.INCONSISTENT_GROUP_PROTOCOL}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_NO_ANSWER = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
}

# What becomes of codes that need no closer look: {} is the place.
_TOLD: tuple[tuple[set[int], type[HoldfastError], str], ...] = (
    (
        _WRONG_PASSWORD,
        AccessDenied,
        "{}: the brokers refuse our credentials ({plain}): check user, password, sasl.mechanism "
        "and security.protocol",
    ),
    (
        {KafkaError._SSL},
        AccessDenied,
        "{}: no encrypted connection ({plain}): check ssl.ca.location and security.protocol",
    ),
    (
        _TOO_LARGE,
        UsageError,
        "{}: {doing}: a record is larger than the topic takes: send less at once, or raise "
        "max.message.bytes of the topic",
    ),
    (
        _TOO_OLD,
        UsageError,
        "{}: the brokers are too old for {doing} ({plain}): Kafka 2.5 is the oldest that works, "
        "4.x is what we test",
    ),
    (
        _STRANGERS,
        UsageError,
        "{}: {doing}: it has members that are no workers of this fleet: stop them, or give another "
        "prefix, as in kafka://{brokers}/PREFIX",
    ),
    (
        _UNKNOWN,
        Missing,
        "{}: {doing}: a topic of this fleet is gone: restore it, or the fleet from a snapshot",
    ),
    (
        {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND},
        Unreachable,
        "{}: {doing}: too few brokers are in step (min.insync.replicas): start them",
    ),
    (
        {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_CONFIG},
        UsageError,
        "{}: {doing}: {plain}: start more brokers, or give another ?replication=",
    ),
    (
        {KafkaError.POLICY_VIOLATION},
        UsageError,
        "{}: {doing}: the brokers' policy forbids it ({plain}): have the topics made by who may "
        "(docs/kafka.md lists them)",
    ),
    (
        {KafkaError._QUEUE_FULL},
        Busy,
        "{}: {doing}: more waits to be sent than memory is set aside for: send less at once",
    ),
    (
        {KafkaError._ALL_BROKERS_DOWN},
        Unreachable,
        "{}: {doing}: the brokers end every connection at once: are they up, and does this port "
        "want TLS or a password (kafka://user:password@…, security.protocol)?",
    ),
    (
        {KafkaError._RESOLVE},
        Unreachable,
        "{}: {doing}: {plain}: check the names of the hosts",
    ),
)


def admin_of(settings: KafkaSettings) -> AdminClient:
    """One that a broker has answered."""
    admin = made(AdminClient, settings)
    _meet(admin, settings)
    return admin


def _meet(admin: AdminClient, settings: KafkaSettings) -> None:
    """The first question. Who is not let in is told why at once: the client would go on trying."""
    begun = time.monotonic()
    asked: Future[TopicDescription | DescribeClusterResult]
    if settings.prefix is None:
        asked = admin.describe_cluster(request_timeout=MEET_SECONDS)
    else:
        (asked,) = admin.describe_topics(
            TopicCollection([f"{settings.prefix}.catalog"]),
            include_authorized_operations=True,
            request_timeout=MEET_SECONDS,
        ).values()
    while wait([asked], 0.02).not_done:
        admin.poll(0.0)  # here it complains
        reason = _complaint(settings, begun)
        if reason is not None and (_is_hopeless(reason) or _are_down(settings, begun)):
            raise explain(reason, settings, "connecting")
    try:
        permitted = asked.result().authorized_operations
    except KafkaException as trouble:
        if (error := error_of(trouble)).code() not in _UNKNOWN:
            raise explain(error, settings, "looking for the catalog") from None
    else:
        if settings.prefix is not None and permitted and AclOperation.READ not in permitted:
            denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            raise explain(denied, settings, "reading the catalog")


def _complaint(settings: KafkaSettings, since: float = 0.0) -> KafkaError | None:
    """Why brokers do not answer, as far as the client library has said it lately."""
    since = max(since, time.monotonic() - COMPLAINT_SECONDS)
    told = [error for when, error in settings.complaints.copy() if when >= since]
    told.sort(key=_weight)
    return told[-1] if told else None


def _weight(complaint: KafkaError) -> tuple[bool, bool, bool]:
    """That all brokers are down, and that a line was cut, the library says beside every reason."""
    is_reason = complaint.code() != KafkaError._ALL_BROKERS_DOWN
    return _is_hopeless(complaint), is_reason, "?" in complaint.str()  # it has a guess


def _are_down(settings: KafkaSettings, begun: float) -> bool:
    """All of them, since long enough; where one answers slowly, that others are down is no news."""
    down = KafkaError._ALL_BROKERS_DOWN
    told = any(when >= begun and e.code() == down for when, e in settings.complaints.copy())
    return told and time.monotonic() - begun > DOWN_SECONDS


def _is_hopeless(complaint: KafkaError) -> bool:
    """A broker has said no. A connection that broke while we said who we are may be the next one's
    luck, and so is a service for tokens that is down."""
    refused = complaint.code() in _WRONG_PASSWORD and "Local: " not in complaint.str()
    return (refused and _NO_TOKEN not in complaint.str()) or complaint.code() == KafkaError._SSL


def error_of(trouble: KafkaException) -> KafkaError:
    """The client library never lets go of what a producer raises, and with its frames the producer
    would stay: threads, pipes and all."""
    trouble.__traceback__ = None
    return trouble.args[0]  # type: ignore[no-any-return]


def is_refusal(error: KafkaError) -> bool:
    """Whether trying again does not help."""
    code = error.code()
    refusals = (_DENIED, _WRONG_PASSWORD, _TOO_LARGE, _TOO_OLD, _STRANGERS)
    return any(code in each for each in refusals)


def explain(error: KafkaError, settings: KafkaSettings, doing: str) -> HoldfastError:
    place = settings.place
    if error.code() in _NO_ANSWER:
        error = _complaint(settings) or error
    code = error.code()
    if code in _DENIED:
        return AccessDenied(
            f"{place}: the brokers do not permit {doing}: allow this user "
            f"{_permission(_DENIED[code], doing, settings.prefix)}; docs/kafka.md lists all"
        )
    if code in _WRONG_PASSWORD and _NO_TOKEN in error.str():
        return Unreachable(
            f"{place}: {doing}: {_plain(error)}: check the address of the service for tokens, the "
            "client id and its secret (sasl.oauthbearer.…)"
        )
    for codes, kind, text in _TOLD:
        if code in codes:
            plain = _plain(error)
            return kind(text.format(place, doing=doing, plain=plain, brokers=settings.bootstrap))
    reason = _complaint(settings)
    why = f" ({_plain(reason)})" if reason is not None and reason is not error else ""
    told = f"{_plain(error)}{why}"
    asks = told.endswith("?")  # the client library has a better question
    return Unreachable(f"{place}: {doing}: {told}{'' if asks else ': are the brokers up?'}")


def _permission(kind: str, doing: str, prefix: str | None) -> str:
    begins = f"whose names begin with {prefix!r}"
    if kind == "the cluster":  # asked for by a producer that may write to no topic at all
        return f"WRITE on topics {begins} (before Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)"
    found = (each for on, start, each in _PERMISSIONS if on == kind and doing.startswith(start))
    return f"{next(found)} on {kind} {begins}"


def _plain(error: KafkaError) -> str:
    """Without the name of the connection before it, and the state of that behind it."""
    text = re.sub(r"^(\w+://)?\S+:\d+/\w+: ", "", error.str() or error.name())
    return re.sub(r" \(after \d+ms in state \w+[^)]*\)$", "", text).rstrip(".")


def unanswered(settings: KafkaSettings, doing: str, seconds: float) -> HoldfastError:
    """What was sent may be there or not."""
    reason = _complaint(settings)
    if reason is not None and _is_hopeless(reason):
        return explain(reason, settings, doing)
    why = f" ({_plain(reason)})" if reason is not None else ""
    return Busy(
        f"{settings.place}: {doing}: no acknowledgement within {round(seconds, 1):g} s{why}: are "
        "the brokers up? Send it again, it is taken once"
    )


@contextmanager
def explained(settings: KafkaSettings, doing: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as trouble:
        raise explain(error_of(trouble), settings, doing) from None
