"""One client's part in a history of a fail-over: what it sends and reads, and what servers say.

Two clients go through a history on the same cluster: a server is killed when both have come
there (``FailoverRun.act``), and what they read and send is their own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from benchmarks.clusters import Cluster
from tests.histories.history_run import ClientProcesses, HistoryProducer, HistoryRun
from tests.sdk.administration import ask, body_of, broker_addresses
from tests.sdk.sdk_process import SdkError

ROUTE_POLL_MS = HEARTBEAT_MS = 1_000
HA_SILENCE_S = 25.0  # haHousekeepingInterval is 20 s
WAIT_S_MAX = 240.0  # others may use the machine
NOTHING_COMES_S = 5.0  # for what is not to come: many times what it takes where it does come
GET_ALL_TOPIC_CONFIG, GET_BROKER_RUNTIME_INFO, GET_MAX_OFFSET = 21, 28, 30
ELECT_MASTER, GET_SYNC_STATE_DATA = 1002, 1006
QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET = 14, 15
MASTER = "broker-a"
Deed: TypeAlias = Callable[[Cluster], object]


def kill(node: str) -> Deed:
    """As ``kill -9``."""
    return lambda cluster: cluster.control_node(node, "kill")


def start(node: str) -> Deed:
    return lambda cluster: cluster.control_node(node, "start")


def pause(node: str) -> Deed:
    """As ``SIGSTOP``: it hangs."""
    return lambda cluster: cluster.control_node(node, "pause")


def resume(node: str) -> Deed:
    return lambda cluster: cluster.control_node(node, "resume")


def elect(node: str) -> Deed:
    """Have the controller elect *node*, as ``mqadmin electMaster`` does; returns the code."""

    def ask_for_it(cluster: Cluster) -> int:
        fields = {
            "clusterName": "DefaultCluster",
            "brokerName": MASTER,
            "brokerId": str(replicas_of(cluster)[cluster.brokers[node]]),
            "designateElect": "true",
        }
        return ask(controller_of(cluster), ELECT_MASTER, fields).code

    return ask_for_it


def controller_of(cluster: Cluster) -> str:
    return next(iter(cluster.controllers.values()))


def replicas_of(
    cluster: Cluster, kinds: tuple[str, ...] = ("inSyncReplicas", "notInSyncReplicas")
) -> dict[str, int]:
    """The ids of replicas by their addresses, at the controller; none without a leader."""
    body = json.dumps([MASTER]).encode()
    answer = ask(controller_of(cluster), GET_SYNC_STATE_DATA, {}, body)
    if answer.code:
        return {}  # no controller leads yet
    known = body_of(answer)["replicasInfoTable"].get(MASTER, {})
    found = [each for kind in kinds for each in known.get(kind) or []]
    return {each["brokerAddress"]: each["brokerId"] for each in found}


class Steps:
    """What happens to the servers of one cluster, once for all clients that come there."""

    def __init__(self, cluster: Cluster, clients: int) -> None:
        self._cluster = cluster
        self._clients = clients  # that are still there
        self._waiting: dict[int, tuple[Deed, ...]] = {}  # by the number of a step
        self._arrived: dict[int, int] = {}
        self._changed = threading.Condition()

    def act(self, number: int, deeds: tuple[Deed, ...]) -> None:
        """Wait for the other clients at step *number*; then *deeds* are done, in order."""
        with self._changed:
            self._waiting[number] = deeds
            self._arrived[number] = self._arrived.get(number, 0) + 1
            self._do_what_is_due()
            is_over = self._changed.wait_for(lambda: number not in self._waiting, WAIT_S_MAX)
            assert is_over, "the other clients did not come"

    def leave(self) -> None:
        """A client has ended, perhaps too early: the others do not wait for it."""
        with self._changed:
            self._clients -= 1
            self._do_what_is_due()

    def _do_what_is_due(self) -> None:
        for number, deeds in [*self._waiting.items()]:
            if self._arrived[number] >= self._clients:
                for deed in deeds:
                    deed(self._cluster)
                del self._waiting[number]
        self._changed.notify_all()


class FailoverRun(HistoryRun):
    """A history's view of its cluster: one broker name, or several, each with a slave."""

    def __init__(
        self, history: str, release: str, client: ClientProcesses, cluster: Cluster, steps: Steps
    ) -> None:
        super().__init__(history, release, client, cluster)
        self.where |= {"poll_ms": ROUTE_POLL_MS, "heartbeat_ms": HEARTBEAT_MS}
        self.history = history
        self._steps = steps
        self._step = 0

    def leave(self) -> None:
        """Its part is over; other clients do not wait for it."""
        self._steps.leave()

    # Servers --------------------------------------------------------------------------

    def act(self, *deeds: Deed) -> None:
        """Do something to servers, once for all clients."""
        number, self._step = self._step, self._step + 1
        self._steps.act(number, deeds)

    def meet(self) -> None:
        """Wait until every client has come here."""
        self.act()

    def master(self) -> str:
        """The node whose address the NameServer has as id 0 of the broker name; "" if none."""
        address = broker_addresses(self.cluster.namesrv, MASTER).get(0)
        return next((name for name, at in self.cluster.brokers.items() if at == address), "")

    def other(self, node: str) -> str:
        """The second node of the broker name."""
        return next(
            name for name in self.cluster.brokers if name.startswith(MASTER) and name != node
        )

    def wait_master(self, node: str) -> None:
        self.wait_until(lambda: self.master() == node, f"{node} is the master")

    def wait_gone(self, broker_id: int) -> None:
        """Wait until the NameServer has no address for this id."""
        known = self.cluster.namesrv
        self.wait_until(lambda: broker_id not in broker_addresses(known, MASTER), "it is gone")

    def count(self, node: str) -> int:
        """The number of messages in queue 0 at *node*; 0 if it has no such topic."""
        fields = {"topic": self.topic, "queueId": "0"}
        answer = ask(self.cluster.brokers[node], GET_MAX_OFFSET, fields)
        return int(answer.fields()["offset"]) if answer.code == 0 else 0

    def wait_count(self, node: str, count: int) -> None:
        self.wait_until(lambda: self.count(node) == count, f"{node} has {count} messages")

    def wait_copied(self, master: str, slave: str) -> None:
        """Wait until *slave* has what *master* has of this topic.

        The sync-state set does not say so: it is of who followed within the last 15 s.
        """
        self.wait_count(slave, self.count(master))

    def log_end(self, node: str) -> str:
        """The position after the last byte of the log of *node*."""
        figures = ask(self.cluster.brokers[node], GET_BROKER_RUNTIME_INFO, {}).body
        return str(json.loads(figures)["table"]["commitLogMaxOffset"])

    def wait_log_copied(self, master: str, slave: str) -> None:
        """Wait until *slave* has all that *master* has, of delayed messages, too."""
        what = f"{slave} has the log of {master}"
        self.wait_until(lambda: self.log_end(slave) == self.log_end(master), what)

    def committed(self, node: str, group: str) -> int | None:
        """The offset of the group in queue 0 at *node*; None without one."""
        fields = {"consumerGroup": group, "topic": self.topic, "queueId": "0"}
        answer = ask(self.cluster.brokers[node], QUERY_CONSUMER_OFFSET, fields)
        return int(answer.fields()["offset"]) if answer.code == 0 else None

    def commit(self, node: str, group: str, offset: int) -> None:
        fields = {"consumerGroup": group, "topic": self.topic, "queueId": "0"}
        fields["commitOffset"] = str(offset)
        assert ask(self.cluster.brokers[node], UPDATE_CONSUMER_OFFSET, fields).code == 0

    def wait_in_sync(self, count: int) -> None:
        """Wait until the controller's sync-state set has *count* members."""
        wanted = ("inSyncReplicas",)
        self.wait_until(lambda: len(replicas_of(self.cluster, wanted)) == count, "all in sync")

    def wait_topic(self, node: str) -> None:
        """Wait until *node* has the topic's configuration."""
        address, wanted = self.cluster.brokers[node], f'"{self.topic}"'.encode()
        what = f"{node} has the topic"
        self.wait_until(lambda: wanted in ask(address, GET_ALL_TOPIC_CONFIG, {}).body, what)

    # Clients --------------------------------------------------------------------------

    def try_send(self, producer: HistoryProducer, key: str, **more: object) -> str:
        """Send once; the status, or ``failed``."""
        try:
            (result,) = producer.send([self.message(key, **more)])
        except SdkError:
            return "failed"
        return str(result["status"])

    def send_to_master(self, producer: HistoryProducer, key: str, **more: object) -> str:
        """Send messages with *key* and a number until one is stored at broker-a; its key."""
        number = 0
        while True:
            number += 1
            (result,) = producer.send([self.message(f"{key}-{number}", **more)])
            if result["broker"] == MASTER:
                return f"{key}-{number}"

    def send_until(self, producer: HistoryProducer, key: str, status: str = "SEND_OK") -> str:
        """Send messages with *key* and a number until one has *status*; the last key."""
        number = 0

        def is_sent() -> bool:
            nonlocal number
            number += 1
            return self.try_send(producer, f"{key}-{number}") == status

        self.wait_until(is_sent, f"a send that ends with {status}")
        return f"{key}-{number}"

    def wait_link_closed(self) -> None:
        """Until a master has left a slave that hangs: before, the bytes wait in its socket."""
        time.sleep(HA_SILENCE_S)

    def nothing_more(self) -> None:
        """Give what is not to come the time to come."""
        time.sleep(NOTHING_COMES_S)

    def wait_until(self, is_true: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + WAIT_S_MAX
        while not is_true():
            assert time.monotonic() < deadline, f"in {WAIT_S_MAX} s it never was true that {what}"
            time.sleep(0.1)
