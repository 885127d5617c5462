"""What the parts of a running fleet tell: each as samples, asked for by whoever publishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.runtime.metering.samples import Sample, gauge

if TYPE_CHECKING:  # whoever asks has what it asks for; nobody else needs the others' imports
    from holdfast.runtime.archiving.shipper import Shipper
    from holdfast.runtime.calling.caller import Caller
    from holdfast.runtime.snapshots.snapshotter import Snapshotter
    from holdfast.runtime.supervisor import Supervisor
    from holdfast.runtime.tracing.exporting import Exporter
    from holdfast.runtime.worker import Worker


def of_worker(worker: Worker, process: str) -> Iterator[Sample]:
    yield gauge("holdfast_schema_generation", worker.generation, process=process)
    for number, partition in list(worker.partitions.items()):
        stepper = partition.stepper
        timers = len(stepper.agenda) + sum(len(kind.agenda) for kind in stepper.compiled)
        yield gauge("holdfast_timers_pending", timers, partition=number)
        yield gauge("holdfast_outbox_messages", partition.messages_waiting, partition=number)
        waits = number in worker.alarms
        yield gauge("holdfast_partition_waits", waits, partition=number)
        if partition.meter is not None:
            yield from partition.meter.samples(stepper)


def of_caller(caller: Caller) -> Iterator[Sample]:
    for each in caller.status():
        own = {"function": each.function}
        yield gauge("holdfast_calls_running", each.running, **own)
        yield gauge("holdfast_calls_waiting", each.waiting, **own)
        yield gauge("holdfast_call_attempts_total", each.attempts, **own)
        yield gauge("holdfast_call_failures_total", each.failures, **own)
        yield gauge("holdfast_call_breaker_open", each.breaker == "open", **own)
    for function, seconds in caller.answered_after():
        yield seconds.sample("holdfast_call_seconds", function=function)


def of_tracer(tracer: Exporter | None, process: str) -> Iterator[Sample]:
    if tracer is not None:
        yield gauge("holdfast_spans_exported_total", tracer.exported, process=process)
        yield gauge("holdfast_spans_dropped_total", tracer.dropped, process=process)


def of_snapshotter(snapshotter: Snapshotter) -> Iterator[Sample]:
    yield gauge("holdfast_snapshot_failing", snapshotter.trouble is not None)
    if snapshotter.taken is not None:
        yield gauge("holdfast_snapshot_timestamp_seconds", round(snapshotter.taken, 3))
    made = snapshotter.made
    if made is not None:
        yield gauge("holdfast_snapshot_seconds", round(made.seconds, 6))
        yield gauge("holdfast_snapshot_bytes", made.bytes)


def of_shipper(shipper: Shipper) -> Iterator[Sample]:
    lag = shipper.lag()
    yield gauge("holdfast_archive_lag_events", lag.events)
    yield gauge("holdfast_archive_lag_seconds", round(lag.seconds, 3))
    yield gauge("holdfast_archive_failing", bool(shipper.trouble))


def of_supervisors(supervisors: Iterable[Supervisor]) -> Iterator[Sample]:
    """Of a process that was never started nothing is told."""
    for supervisor in supervisors:
        for post in supervisor.posts:
            if post.starts:
                name = supervisor.name_of(post)
                yield gauge("holdfast_process_restarts_total", post.starts - 1, process=name)
