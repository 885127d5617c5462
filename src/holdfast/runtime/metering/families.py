"""Every metric there is: its name, its kind, its labels beside fleet and region, and its meaning.

docs/observability.md has the same table; a test compares the two, and what is exposed with both.
"""

from __future__ import annotations

from holdfast.runtime.metering.samples import Family

_OF_PARTITIONS = (
    # What views say: durable, so a new worker goes on where the one before it was.
    ("inbox_events_total", "counter", "Events that came to the inbox, ever."),
    ("folded_events_total", "counter", "Events that were folded, ever."),
    ("lag_events", "gauge", "Events that wait in the inbox."),
    ("lag_seconds", "gauge", "For how long the oldest event that waits has waited."),
    ("commits_total", "counter", "Commits, ever."),
    ("actions_total", "counter", "Actions issued, ever."),
    ("timers_fired_total", "counter", "Timers and expiries that fired, ever."),
    ("calls_total", "counter", "Calls made, ever."),
    ("oldest_call_seconds", "gauge", "For how long the oldest open call has waited for its reply."),
    ("dead_letters_total", "counter", "Dead letters made, ever."),
    ("dead_letters", "gauge", "Dead letters that were not redriven; not told past 1,000 made."),
    ("partition_owned", "gauge", "1 if a live process folds the partition, else 0."),
    ("ground_stop", "gauge", "1 while a ground stop is in force, else 0."),
    ("handover_pause_seconds", "gauge", "How long the oldest event waited at the last handover."),
    # What the owner counts: from 0 again with each process.
    ("event_to_action_seconds", "histogram", "From the stamp of an event to its commit."),
    ("event_age_seconds", "histogram", "From when an event happened, by its producer. Sampled."),
    ("fold_seconds", "histogram", "Reading and folding what one commit takes."),
    ("commit_seconds", "histogram", "Making one commit durable."),
    ("commit_events", "histogram", "Events that one commit took."),
    ("partition_cpu_seconds_total", "counter", "Processor time spent on the partition."),
    ("read_bytes_total", "counter", "Bytes of inbox frames that were read."),
    ("commit_bytes_total", "counter", "Bytes of states and actions that were committed."),
    ("messages_total", "counter", "Messages sent to agents."),
    ("message_bytes_total", "counter", "Bytes of messages sent to agents."),
    ("changed_agents_total", "counter", "Agents that commits have changed."),
    ("redriven_total", "counter", "Dead letters that were redriven."),
    ("claim_epoch", "gauge", "The epoch of the claim: it grows with every handover."),
    ("load_seconds", "gauge", "How long loading the states took after the claim."),
    ("timers_pending", "gauge", "About how many timers and expiries are set."),
    ("outbox_messages", "gauge", "Committed messages that the relay has not delivered."),
    ("partition_waits", "gauge", "1 if something holds the partition up, else 0."),
)
_OF_CLASSES = (
    ("agents", "gauge", "partition, agent", "Agents there are."),
    ("paused_agents", "gauge", "partition, agent", "Agents that are paused."),
    ("state_bytes", "gauge", "partition, agent", "Size of all states, from a sampled mean."),
    ("hot_key_share", "gauge", "partition, agent, key", "Share of events that are for one key."),
    ("large_state_bytes", "gauge", "partition, agent, key", "Size of one large state. Sampled."),
)
_OF_CALLS = (
    ("calls_running", "gauge", "Attempts that run now."),
    ("calls_waiting", "gauge", "Calls in the caller's memory that wait for an attempt."),
    ("call_attempts_total", "counter", "Attempts that were started."),
    ("call_failures_total", "counter", "Attempts that failed."),
    ("call_breaker_open", "gauge", "1 while the circuit breaker stops attempts, else 0."),
    ("call_seconds", "histogram", "From the commit of a call to its stored reply."),
)
_OF_PROCESSES = (
    ("process_up", "gauge", "process", "1 if it runs and has published lately, else 0."),
    ("process_restarts_total", "counter", "process", "How often it was started again."),
    ("process_cpu_seconds_total", "counter", "process", "Processor time."),
    ("process_resident_memory_bytes", "gauge", "process", "Memory in use."),
    ("process_open_files", "gauge", "process", "Open descriptors."),
    ("process_start_time_seconds", "gauge", "process", "When it started, since 1970."),
    ("process_disk_bytes_total", "counter", "process, way", "Bytes read from and written to disk."),
    ("process_info", "gauge", "process, release, python", "Always 1: what it runs."),
    ("schema_generation", "gauge", "process", "How new the classes of its program are."),
    ("spans_exported_total", "counter", "process", "Spans of traces that the receiver took."),
    ("spans_dropped_total", "counter", "process", "Spans that were too many, or nobody took."),
)
_OF_THE_FLEET = (
    ("partitions", "gauge", "", "Partitions, apart from retired ones."),
    ("unreadable_partitions", "gauge", "", "Partitions that could not be read for this answer."),
    ("backlog_events_max", "gauge", "", "Events of one inbox at which sends are refused."),
    ("disk_free_bytes", "gauge", "", "Free space where the data is."),
    ("disk_reserve_bytes", "gauge", "", "Free space below which nothing is accepted."),
    ("snapshot_timestamp_seconds", "gauge", "", "When the newest snapshot was taken, since 1970."),
    ("snapshot_seconds", "gauge", "", "How long the newest snapshot took."),
    ("snapshot_bytes", "gauge", "", "How much the newest snapshot uploaded."),
    ("snapshot_failing", "gauge", "", "1 if the last attempt at a snapshot failed, else 0."),
    ("archive_lag_events", "gauge", "", "Events that are not archived yet."),
    ("archive_lag_seconds", "gauge", "", "Age of the oldest event that is not archived."),
    ("archive_failing", "gauge", "", "1 if the archive has trouble, else 0."),
)

FAMILIES: tuple[Family, ...] = tuple(
    Family(f"holdfast_{name}", kind, labels, text)
    for name, kind, labels, text in (
        *((name, kind, "partition", text) for name, kind, text in _OF_PARTITIONS),
        *_OF_CLASSES,
        *((name, kind, "function", text) for name, kind, text in _OF_CALLS),
        *_OF_PROCESSES,
        *_OF_THE_FLEET,
    )
)
