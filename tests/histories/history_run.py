"""One run of a history: its names, its producers and consumers in an SDK's process, its facts.

A history is written once, in Python; a program with the SDK carries out its commands.
So the outcome of a history can depend on the client and on the broker, and on nothing else.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

from benchmarks.clusters import Cluster
from tests.histories.appointment import Appointment
from tests.sdk.administration import routed_brokers
from tests.sdk.scenario import Consumer, Producer
from tests.sdk.sdk_process import SdkError, SdkProcess

WAIT_S_MAX = 120.0  # for an event or an answer: others may use the machine
COMMIT, ROLLBACK, UNKNOW = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"

# A broker has to know a producer to ask it, and refuses pulls of a newer subscription than that
# of the consumer's last heartbeat.  Clients do not repeat a first heartbeat that was lost, or left
# out because another one was under way: so the next one has to come soon.
HEARTBEAT_MS = 1_000

# What an error of a client says, in any language.
ERRORS = {
    "timeout": ("RequestTimeoutException", "wait reply message timeout", "RequestUnanswered"),
    "refused": ("MQBrokerException", "CODE: 1, DESC", "RequesterGone"),
}


def kind_of(error: SdkError) -> str:
    """timeout or refused; the text of any other error."""
    for kind, texts in ERRORS.items():
        if any(text in str(error) for text in texts):
            return kind
    return str(error)


class ClientProcesses(NamedTuple):
    """The process of an SDK, and a second one to be killed."""

    name: str
    process: SdkProcess
    victim: SdkProcess


class Answer:
    """A command that is under way."""

    def __init__(self, process: SdkProcess, do: str, **arguments: object) -> None:
        self._process = process
        self._number = process.begin(do, **arguments)

    def wait(self) -> Any:
        """Its result.  Raises ``SdkError``."""
        return self._process.answer(self._number, WAIT_S_MAX)

    def wait_kind(self) -> Any:
        """Its result, or the kind of its error."""
        try:
            return self.wait()
        except SdkError as error:
            return kind_of(error)

    def wait_event(self, event: str, **wanted: object) -> None:
        """Wait for an event while the command is under way.  Raises ``SdkError`` if it fails."""
        self._process.wait_until(
            lambda: bool(self._process.events(event, **wanted)) or self._is_over(),
            WAIT_S_MAX,
            f"{event} {wanted}",
        )
        if not self._process.events(event, **wanted):
            raise AssertionError(f"no {event}, but {self.wait()}")

    def _is_over(self) -> bool:
        return self._process.is_answered(self._number)


class HistoryProducer(Producer):
    """A producer that also sends in transactions, requests and replies."""

    def __init__(
        self, run: HistoryRun, name: str, process: SdkProcess, how: dict[str, Any]
    ) -> None:
        self._tale = run
        self.client = run.unique(name)
        self.ids: dict[str, str] = {}  # the unique ids of messages, by their keys
        super().__init__(
            process, self.client, run.unique(how.pop("group", name)), **how, **run.where
        )

    def send_one(self, key: str, **more: object) -> None:
        """Send an ordinary message."""
        (result,) = self.send([self._tale.message(key, **more)])
        assert result["status"] == "SEND_OK", result
        self.ids[key] = result["unique_id"]

    def transact(self, key: str, state: str) -> list[str]:
        """Send in a transaction that ends with *state*; return both statuses."""
        message = self._tale.message(key)
        result = self._begin("send in transaction", message=message, state=state).wait()
        self.ids[key] = result["unique_id"]
        return [result["status"], result["state"]]

    def begin(self, key: str) -> Answer:
        """Send in a transaction; return when its half message is stored and it runs."""
        answer = self._begin("send in transaction", message=self._tale.message(key))
        answer.wait_event("executing", keys=self._tale.unique(key))
        return answer

    def conclude(self, key: str, state: str) -> None:
        """End the local transaction that waits."""
        self._process.invoke("conclude", keys=self._tale.unique(key), state=state)

    def wait_checked(self, key: str) -> None:
        """Wait until a broker has asked this producer about the message."""
        keys = self._tale.unique(key)
        self._process.wait_events("checked", 1, WAIT_S_MAX, keys=keys, producer=self.client)

    def checks(self, *keys: str) -> dict[str, list[str]]:
        """What this producer has said about each message; every answer once."""
        return {
            key: sorted(
                {
                    event["state"]
                    for event in self._process.events(
                        "checked", keys=self._tale.unique(key), producer=self.client
                    )
                }
            )
            for key in keys
        }

    def request(self, key: str, timeout_ms: int, topic: str = "") -> Answer:
        message = self._tale.message(key, topic=topic or self._tale.topic)
        return self._begin("request", message=message, timeout_ms=timeout_ms)

    def reply(self, key: str) -> Any:
        """Reply to the request; the status, or the kind of the error."""
        keys = self._tale.unique(key)
        return self._begin("reply", keys=keys, body=f"answer to {key}").wait_kind()

    def _begin(self, do: str, **arguments: object) -> Answer:
        return Answer(self._process, do, producer=self.client, **arguments)


class HistoryConsumer(Consumer):
    """A consumer whose messages are named by their keys."""

    def __init__(self, run: HistoryRun, process: SdkProcess, how: dict[str, Any]) -> None:
        self._tale = run
        super().__init__(process, run.unique(how.pop("name")), "consumer", how | run.where)

    def wait(self, *keys: str) -> None:
        """Wait until a message with each of these keys was consumed."""
        for key in keys:
            wanted = self._tale.unique(key)
            self._process.wait_events(
                "consumed", 1, WAIT_S_MAX, consumer=self._name, keys=wanted, refused=False
            )

    def found(self) -> list[str]:
        """The keys in the order of consumption; those of retries with their number."""
        return [
            f"{self._tale.short(event['keys'])}{_times(event['reconsume_times'])}"
            for event in self.consumed()
        ]


def _times(reconsume_times: int) -> str:
    return f" (retry {reconsume_times})" if reconsume_times else ""


class HistoryRun:
    """What a history works with; its clients are stopped at its end."""

    def __init__(
        self, history: str, release: str, client: ClientProcesses, cluster: Cluster
    ) -> None:
        self.release, self.client, self.cluster = release, client, cluster
        self.topic = f"{history}-{release}-{client.name}".replace(".", "-")
        self.new_topic = f"{self.topic}-new"  # nobody has created it
        self.where: dict[str, Any] = {"namesrv": cluster.namesrv}
        self._cleanup = contextlib.ExitStack()

    def unique(self, name: str) -> str:
        return f"{self.topic}-{name}"

    def short(self, name: str) -> str:
        return name.removeprefix(f"{self.topic}-")

    def message(self, key: str, **more: object) -> dict[str, Any]:
        return {"topic": self.topic, "keys": self.unique(key), "body": key, **more}

    def producer(self, name: str = "plain", **how: Any) -> HistoryProducer:
        """A producer; ``checks={key: state}`` makes it one of transactional messages."""
        producer = HistoryProducer(self, name, self.client.process, self._adapted(how))
        self._cleanup.callback(producer.stop)
        return producer

    def producer_to_kill(self, name: str, **how: Any) -> HistoryProducer:
        """A producer in the process that will be killed."""
        return HistoryProducer(self, name, self.client.victim, self._adapted(how))

    def consumer(self, name: str = "reader", **how: Any) -> HistoryConsumer:
        """A consumer with a group of its own, from the first message on."""
        given = {"topic": self.topic, "group": self.unique(name), "heartbeat_ms": HEARTBEAT_MS}
        how = {**given, "name": name, **how}
        if "refuse" in how:
            how["refuse"] = {self.unique(key): level for key, level in how["refuse"].items()}
        consumer = HistoryConsumer(self, self.client.process, how)
        self._cleanup.callback(consumer.stop)
        return consumer

    def wait_routed(self, topic: str) -> None:
        """Wait until the NameServer knows the topic."""
        deadline = time.monotonic() + WAIT_S_MAX
        while not routed_brokers(self.cluster, topic):
            assert time.monotonic() < deadline, f"no broker has created {topic}"
            time.sleep(0.1)

    def close(self) -> None:
        self._cleanup.close()

    def _adapted(self, how: dict[str, Any]) -> dict[str, Any]:
        if "checks" in how:
            checks = {self.unique(key): state for key, state in how["checks"].items()}
            how |= {"checks": checks, "heartbeat_ms": HEARTBEAT_MS}
        return how


class Meeting:
    """A history's part in an appointment, if it has one; cancelled if the history ends before."""

    def __init__(self, appointment: Appointment | None) -> None:
        self._appointment = appointment

    def arrive(self) -> None:
        """Return when it is done."""
        appointment, self._appointment = self._appointment, None
        assert appointment is not None, "this history has no appointment, or has been there"
        appointment.arrive()

    def close(self) -> None:
        if self._appointment is not None:
            self._appointment.cancel()
