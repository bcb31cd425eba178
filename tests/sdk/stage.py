"""A story's own corner of the cluster: its topic, its group, and whoever plays in it.

Names are new for every story, so stories share a cluster without seeing each other, and
everybody who was started leaves when the story ends.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from types import TracebackType
from typing import Any, Self

from sdk.actors import Actor, Event
from sdk.administration import committed, create_group, create_topic

from benchmarks.clusters import Cluster

REBALANCE_S_MAX = 45.0
COMMIT_S_MAX = 10.0


class Producer:
    """One producer that an actor plays."""

    def __init__(self, actor: Actor, name: str, group: str) -> None:
        self._actor, self._name = actor, name
        actor.ask("start producer", producer=name, group=group)

    def send(self, messages: list[Event], way: str = "sync") -> list[Event]:
        """The client's results; one for a whole batch, none for one-way."""
        results: list[Event] = self._actor.ask(
            "send", producer=self._name, way=way, messages=messages
        )
        return results

    def stop(self) -> None:
        self._actor.ask("stop producer", producer=self._name)


class Consumer:
    """One consumer that an actor plays; what it was given is read off the actor's events."""

    def __init__(self, actor: Actor, name: str, kind: str, how: dict[str, Any]) -> None:
        self._actor, self._name, self._kind = actor, name, kind
        self._topic = how["topic"]
        self._playing = True
        actor.ask(f"start {kind}", consumer=name, **how)

    def consumed(self) -> list[Event]:
        return self._actor.events("consumed", consumer=self._name)

    def wait_consumed(self, count: int) -> list[Event]:
        return self._actor.wait_events("consumed", count, consumer=self._name)

    def assigned(self, *, nudge: bool = False, **wanted: object) -> set[tuple[str, int]]:
        """The queues of the story's topic that it holds, as (broker, queue)."""
        held = self._actor.ask("assigned", consumer=self._name, topic=self._topic, nudge=nudge)
        return {
            (queue["broker"], queue["queue"])
            for queue in held
            if all(queue.get(key) == value for key, value in wanted.items())
        }

    def wait_assigned(self, count: int, *, nudge: bool = False, **wanted: object) -> None:
        self._actor.wait_until(
            lambda: len(self.assigned(nudge=nudge, **wanted)) == count,
            REBALANCE_S_MAX,
            f"{self._name} holds {count} queues",
        )

    def stop(self) -> None:
        if self._playing:
            self._playing = False
            self._actor.ask(f"stop {self._kind}", consumer=self._name)


class Stage:
    """Where one story plays.  Topic and group exist on both brokers when it begins."""

    def __init__(self, cluster: Cluster, title: str, queues: int = 4) -> None:
        name = f"{title[:60]}-{secrets.token_hex(4)}"
        self.cluster, self.queues = cluster, queues
        self.topic, self.group = name, f"group-{name}"
        self._leaving = contextlib.ExitStack()
        create_topic(cluster, self.topic, queues)
        create_group(cluster, self.group)

    def messages(self, count: int, start: int = 0, **more: object) -> list[Event]:
        """Messages that no other story can have sent: keys and bodies name the topic."""
        return [
            {
                "topic": self.topic,
                "keys": f"{self.topic}-{i}",
                "body": f"{self.topic} №{i}",
                **more,
            }
            for i in range(start, start + count)
        ]

    def producer(self, actor: Actor) -> Producer:
        producer = Producer(actor, f"{self.topic}-producer", f"producers-{self.topic}")
        self._leaving.callback(producer.stop)
        return producer

    def consumer(
        self, actor: Actor, name: str = "one", kind: str = "consumer", **how: object
    ) -> Consumer:
        """A consumer of the story's topic and group unless *how* says otherwise."""
        how = {"topic": self.topic, "group": self.group, **how}
        consumer = Consumer(actor, f"{self.topic}-{name}", kind, how)
        self._leaving.callback(consumer.stop)
        return consumer

    def wait_committed(self, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """What the group has committed, once that is at least *ends*: commits are one-way."""
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
        self._leaving.close()
