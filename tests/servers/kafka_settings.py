"""What a broker of the tests is told: Kafka's own names, with the values that make tests quick."""

from __future__ import annotations

from collections.abc import Sequence

from tests.servers.kafka_broker import KafkaBroker


def java_options(heap_mb: int, tests: bool) -> list[str]:
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m"]
    usual = ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", f"-Xms{heap_mb}m"]
    log = "-Dorg.slf4j.simpleLogger"
    return [
        *(quick if tests else usual),
        f"-Xmx{heap_mb}m",
        "-Djava.awt.headless=true",
        *(f"{log}.defaultLogLevel=warn", f"{log}.showDateTime=true"),
        f"{log}.dateTimeFormat=HH:mm:ss.SSS",
    ]


def broker_settings(
    broker: KafkaBroker, brokers: Sequence[KafkaBroker], advertised_port: int
) -> dict[str, object]:
    """Three listeners: clients may be sent to a proxy, brokers reach each other all the same."""
    voters = [f"{each.number}@127.0.0.1:{each.controller_port}" for each in brokers]
    return {
        "process.roles": "broker,controller",
        "node.id": broker.number,
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listeners": f"CLIENT://127.0.0.1:{broker.port},"
        f"INTERNAL://127.0.0.1:{broker.internal_port},"
        f"CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{advertised_port},"
        f"INTERNAL://127.0.0.1:{broker.internal_port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "log.dirs": broker.data,
        "metadata.log.dir": broker.metadata,  # stays writable when `data` is a small, full disk
        # A killed broker is missed after this, and others lead. It is also how long a busy machine
        # may leave a broker without a heartbeat, which matters only where others could lead.
        "broker.session.timeout.ms": 3000 if len(brokers) > 1 else 2000,
        **_replication(len(brokers)),
        **_QUICK,
    }


def _replication(brokers: int) -> dict[str, object]:
    copies, in_sync = (3, 2) if brokers >= 3 else (1, 1)
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


# For a broker that nobody kills: without a heartbeat for as long as this it leads nothing, and on a
# busy machine the two seconds above pass quickly.
LEFT_ALONE: dict[str, object] = {"broker.session.timeout.ms": 30_000}

_QUICK: dict[str, object] = {
    "broker.heartbeat.interval.ms": 500,
    "metadata.max.idle.interval.ms": 60_000,  # a record of nothing twice a second, if left alone
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "controlled.shutdown.enable": "true",
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # of the heap, which is small; the usual is 128 MB
    "log.index.size.max.bytes": 1 << 20,
}
