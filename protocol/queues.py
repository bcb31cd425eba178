"""The identity of a queue: which topic, on which broker, which number."""

from __future__ import annotations

import functools

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, rename="camel"):
    """One queue of one topic on one broker; as JSON also a map's key.

    Ordered by topic, broker name and number as upstream orders them, so that every
    client of a group sees the same row.  Upstream: MessageQueue.compareTo.
    """

    topic: str = ""
    broker_name: str = ""
    queue_id: int = 0

    def __lt__(self, other: MessageQueue) -> bool:
        return _sort_key(self) < _sort_key(other)

    def __le__(self, other: MessageQueue) -> bool:
        return _sort_key(self) <= _sort_key(other)

    def __gt__(self, other: MessageQueue) -> bool:
        return _sort_key(self) > _sort_key(other)

    def __ge__(self, other: MessageQueue) -> bool:
        return _sort_key(self) >= _sort_key(other)

    def __str__(self) -> str:
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, "
            f"queueId={self.queue_id}]"
        )


def _sort_key(queue: MessageQueue) -> tuple[bytes, bytes, int]:
    # Java compares UTF-16 code units, which differs from code points beyond the BMP.
    return _units(queue.topic), _units(queue.broker_name), queue.queue_id


@functools.lru_cache(maxsize=10_000)
def _units(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
