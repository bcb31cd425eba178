"""The journal that the benchmark of reports repeats is one that brokers could have written."""

from __future__ import annotations

from itertools import islice

from benchmarks.report import repeated

QUEUE = {"topic": "orders", "broker": "b", "queue_id": 0}


def an_entry(seq: int, node: str, kind: str, **fields: object) -> dict:
    return {
        "seq": seq,
        "at_ms": seq,
        "mono_us": 1_000 * seq,
        "node": node,
        "fact": {"kind": kind, **fields},
    }


def stored(seq: int, offset: int) -> dict:
    key = f"0A00{offset:012X}"
    place = {"queue": QUEUE, "offset": offset, "position": 100 * offset, "size_bytes": 100}
    return an_entry(seq, "b", "MessageStored", uniq_key=key, **place)


RUN = [
    an_entry(1, "c", "QueuesClaimed", group="g", queues=[QUEUE], offsets=[0]),
    *(stored(2 + offset, offset) for offset in range(3)),
    an_entry(5, "b", "OffsetCommitted", group="g", queue=QUEUE, offset=2),
    an_entry(6, "b", "PowerLost", flushed_position=200, kept_position=200, end_position=300),
]


def test_each_repetition_begins_where_the_queues_of_the_one_before_ended() -> None:
    facts = [entry["fact"] for entry in islice(repeated(RUN), 2 * len(RUN) + 2)]
    places = [(f["offset"], f["position"]) for f in facts if f["kind"] == "MessageStored"]
    kept, lost = [(0, 0), (1, 100)], [(2, 200)]
    again = [(2, 200), (3, 300), (4, 400)]  # in the place of the message that was lost
    assert places == [*kept, *lost, *again, (4, 400)]
    assert [f["offset"] for f in facts if f["kind"] == "OffsetCommitted"] == [2, 4]
    assert [f["offsets"] for f in facts if f["kind"] == "QueuesClaimed"] == [[0], [2], [4]]
    assert [f["kept_position"] for f in facts if f["kind"] == "PowerLost"] == [200, 400]
    assert len({f["uniq_key"] for f in facts if "uniq_key" in f}) == 7
