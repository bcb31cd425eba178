"""One test's part of a shared cluster: its topic, its group, its producers and consumers.

Names are new for every test, so tests share a cluster without seeing each other's
messages; every client that was started is stopped when the test ends.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from types import TracebackType
from typing import Any, Self

from benchmarks.clusters import Cluster
from tests.sdk.administration import commit, committed, create_group, create_topic
from tests.sdk.sdk_process import Event, SdkProcess

REBALANCE_S_MAX = 45.0
COMMIT_S_MAX = 30.0  # an SDK may commit for the first time 10 s after its start


class Producer:
    """One producer in an SDK's process."""

    def __init__(self, process: SdkProcess, name: str, group: str, **how: object) -> None:
        self._process, self._name = process, name
        process.invoke("start producer", producer=name, group=group, **how)

    def send(self, messages: list[Event], way: str = "sync") -> list[Event]:
        """Send; return a result for each message, one for a whole batch, none for one-way."""
        results: list[Event] = self._process.invoke(
            "send", producer=self._name, way=way, messages=messages
        )
        return results

    def stop(self) -> None:
        self._process.invoke("stop producer", producer=self._name)


class Consumer:
    """One consumer in an SDK's process; its messages are events of the process."""

    def __init__(self, process: SdkProcess, name: str, kind: str, how: dict[str, Any]) -> None:
        self._process, self._name, self._kind = process, name, kind
        self._topic = how["topic"]
        self._is_running = True
        process.invoke(f"start {kind}", consumer=name, **how)

    def consumed(self) -> list[Event]:
        return self._process.events("consumed", consumer=self._name)

    def wait_consumed(self, count: int) -> list[Event]:
        return self._process.wait_events("consumed", count, consumer=self._name)

    def assigned(self, *, nudge: bool = False, **wanted: object) -> set[tuple[str, int]]:
        """The queues of the test's topic that the consumer holds, as (broker, queue)."""
        held = self._process.invoke(
            "assigned", consumer=self._name, topic=self._topic, nudge=nudge
        )
        return {
            (queue["broker"], queue["queue"])
            for queue in held
            if all(queue.get(key) == value for key, value in wanted.items())
        }

    def wait_assigned(self, count: int, *, nudge: bool = False, **wanted: object) -> None:
        self._process.wait_until(
            lambda: len(self.assigned(nudge=nudge, **wanted)) == count,
            REBALANCE_S_MAX,
            f"{self._name} holds {count} queues",
        )

    def stop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._process.invoke(f"stop {self._kind}", consumer=self._name)


class Scenario:
    """The topic, group and clients of one test; it creates topic and group on both brokers."""

    def __init__(self, cluster: Cluster, title: str, queues: int = 4) -> None:
        name = f"{title[:60]}-{secrets.token_hex(4)}"
        self.cluster, self.queues = cluster, queues
        self.topic, self.group = name, f"group-{name}"
        self._cleanup = contextlib.ExitStack()
        create_topic(cluster, self.topic, queues)
        create_group(cluster, self.group)

    def messages(self, count: int, start: int = 0, **more: object) -> list[Event]:
        """Messages that no other test sends: their keys and bodies contain the topic's name."""
        return [
            {
                "topic": self.topic,
                "keys": f"{self.topic}-{i}",
                "body": f"{self.topic} №{i}",
                **more,
            }
            for i in range(start, start + count)
        ]

    def producer(self, process: SdkProcess, **how: object) -> Producer:
        name, group = f"{self.topic}-producer", f"producers-{self.topic}"
        producer = Producer(process, name, group, **how)
        self._cleanup.callback(producer.stop)
        return producer

    def consumer(
        self, process: SdkProcess, name: str = "one", kind: str = "consumer", **how: object
    ) -> Consumer:
        """A consumer of the test's topic and group unless *how* says otherwise."""
        how = {"topic": self.topic, "group": self.group, **how}
        consumer = Consumer(process, f"{self.topic}-{name}", kind, how)
        self._cleanup.callback(consumer.stop)
        return consumer

    def commit_start(self) -> None:
        """Commit offset 0 of one queue at each broker, before any consumer of the group commits.

        A real broker may keep only one of a group's first commits if they come at the same
        time (4.9.7 and 5.3.3, ConsumerOffsetManager.commitOffset), as they do when a consumer
        stops.
        """
        commit(self.cluster, self.group, self.topic, queue=0, offset=0)

    def wait_committed(self, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """The group's committed offsets, once they reach *ends*: commits are one-way."""
        deadline = time.monotonic() + COMMIT_S_MAX
        while True:
            stored = committed(self.cluster, self.group, self.topic, self.queues)
            behind = {q: stored.get(q) for q, end in ends.items() if stored.get(q, 0) < end}
            if not behind:
                return stored
            assert time.monotonic() < deadline, f"committed {behind}, but {ends} were consumed"
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cleanup.close()
