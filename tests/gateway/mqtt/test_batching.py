"""Goal: whatever devices number or do not number, every agent gets its events in the order in which
they came, each number once, through inboxes that know many sources.
"""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.urls import open_engine
from holdfast.gateway.mqtt.appending import Appender
from holdfast.gateway.mqtt.decoding import Row
from holdfast.gateway.mqtt.packets import Published
from holdfast.runtime.naming import Names
from holdfast.runtime.stored import StoredSchemas
from tests.gateway.mqtt.fleets import fleet
from tests.gateway.mqtt.rig import noted

messages = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]),
        st.one_of(st.none(), st.tuples(st.sampled_from(["", "/2"]), st.integers(0, 12))),
    ),
    max_size=40,
)


@settings(max_examples=12)
@given(st.lists(messages, min_size=1, max_size=4), st.sampled_from([1, 3]))
def test_order_and_dedupe(batches: list[list], partitions: int) -> None:
    expected: dict[str, list[int]] = {}
    known: set[tuple[str, str, int]] = set()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/data"
        with fleet.open(f"{url}?partitions={partitions}") as live:
            engine = open_engine(url, None)
            names, appender = Names("yard", StoredSchemas(engine.catalog.schemas)), Appender(engine)
            at = 0
            for batch in batches:
                rows = []
                for key, number in batch:
                    at += 1
                    schema, packed = names.pack("Noted", {"number": at})
                    source = None if number is None else f"mqtt:Drone/{key}{number[0]}"
                    seq = 0 if number is None else number[1]
                    rows.append(Row("Drone", key, schema, packed, source, seq, Published("", b"")))
                    if number is None or (key, *number) not in known:
                        expected.setdefault(key, []).append(at)
                    if number is not None:
                        known.add((key, *number))
                made = appender.batch(rows)
                assert appender.advance(made) is None
                assert made.is_done
                assert not made.refused
                assert made.taken + made.repeats == len(rows)
            appender.close()
            engine.close()
            live.settle()
            for key in "abcd":
                assert noted(live, key) == expected.get(key, [])
