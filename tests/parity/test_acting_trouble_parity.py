"""Known troubles of slaves that act as masters, on real brokers of 5.3.3.

Each test names its scenario of the library.  Slaves of 5.x copy tables 60 s after their start, and
every 60 s then, so each test takes some minutes.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import ROOT, Cluster, running
from benchmarks.stream import NoSuccess, Stream
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.routes import KVTable
from rocketmq_emulator.protocol.bodies.topics import TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.offsets import (
    GetMaxOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequest
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.releases import known_release
from tests.parity.real_slave import FILE_BYTES, create_topic, real_slave

pytestmark = pytest.mark.parity
RELEASE = "5.3.3"
TOPIC, GROUP = "acted", "readers"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
PROGRESS_GROUP = "CID_RMQ_SYS_TRANS"  # which has the progress of the half topic
ACTS = {"enableSlaveActingMaster": "true", "totalReplicas": "2"}
PATIENT = {"waitTimeMillsInSendQueue": "20000", "diskMaxUsedSpaceRatio": "98"}
STEP_S_MAX = 180
SUSPEND = 2  # PullSysFlag: the broker holds the pull
HOLD_MS = 7_000


class Acting:
    """A master broker-a with a slave, and perhaps another master."""

    def __init__(self, cluster: Cluster, slave: str) -> None:
        self.cluster = cluster
        self.slave = slave
        self.master = cluster.brokers["broker-a"]

    def act(self, verb: str, name: str = "broker-a") -> None:
        """``kill`` or ``start`` a master."""
        self.cluster.control_node(name, verb)

    def ask(self, address: str, rpc: AnyRpc, header: Any, body: bytes = b"") -> Any:
        with Stream(address) as stream:
            return stream.ask(rpc, header, body)

    def figures(self, address: str) -> dict[str, str]:
        """Empty before it listens, and in the second after that."""
        with contextlib.suppress(NoSuccess, OSError):
            body = self.ask(address, catalog.GET_BROKER_RUNTIME_INFO, Header()).body
            return decode_body(body, KVTable).table
        return {}

    def slave_is_active(self) -> bool:
        return self.figures(self.slave).get("brokerActive") == "true"

    def topics(self, address: str) -> set[str]:
        body = self.ask(address, catalog.GET_ALL_TOPIC_CONFIG, Header()).body
        return set(decode_body(body, TopicConfigSerializeWrapper).topic_config_table)

    def next_offset(self, address: str, topic: str = TOPIC) -> int:
        request = GetMaxOffsetRequest(topic=topic, queue_id=0)
        try:
            return self.ask(address, catalog.GET_MAX_OFFSET, request).decode(OffsetReply).offset
        except NoSuccess:
            return 0

    def committed(self, address: str, group: str = GROUP, topic: str = TOPIC) -> int | None:
        request = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=0)
        try:
            reply = self.ask(address, catalog.QUERY_CONSUMER_OFFSET, request)
        except (NoSuccess, OSError):
            return None
        return reply.decode(OffsetReply).offset

    def commit(self, address: str, offset: int) -> None:
        request = UpdateConsumerOffsetRequest(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
        )
        self.ask(address, catalog.UPDATE_CONSUMER_OFFSET, request)

    def pull(self, address: str, offset: int = 0, hold_ms: int = 0) -> tuple[int, float]:
        """The code of a pull's answer, 0 for a message, and how many seconds it took."""
        request = PullMessageRequest(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=0,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=4 | (SUSPEND if hold_ms else 0),  # 4: it has a subscription
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        began_s = time.monotonic()
        code = 0
        try:
            self.ask(address, catalog.PULL_MESSAGE, request)
        except NoSuccess as error:
            code = int(re.findall(r": (\d+) ", str(error))[0])
        return code, time.monotonic() - began_s


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Acting]]:
    with contextlib.ExitStack() as stack:

        def acting(*, brokers: int = 1, slave_now: bool = True, **settings: str) -> Acting:
            given = {**ACTS, **PATIENT, **settings}
            files = f"mappedFileSizeCommitLog={FILE_BYTES}"
            sets = (files, *(f"{name}={value}" for name, value in given.items()))
            words = [word for each in sets for word in ("--set", each)]
            words += ["--nset", "supportActingMaster=true"]
            script = str(ROOT / "benchmarks" / "real_cluster.py")
            command = [sys.executable, script, "--version", RELEASE, "--brokers", str(brokers)]
            cluster = stack.enter_context(running([*command, "--heap", "400m", *words]))
            create_topic_and_group(cluster)
            slave = stack.enter_context(real_slave(cluster, RELEASE, tmp_path, given))
            found = Acting(cluster, slave)
            wait_until(lambda: bool(found.figures(slave)), lambda: slave)
            return found

        yield acting


def create_topic_and_group(cluster: Cluster) -> None:
    for address in cluster.brokers.values():
        create_topic(address, TOPIC)
        with Stream(address) as stream:
            body = encode_body(SubscriptionGroupConfig(group_name=GROUP), known_release("4.9.7"))
            stream.ask(catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Header(), body)


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    until_s = time.monotonic() + STEP_S_MAX
    while not is_so():
        assert time.monotonic() < until_s, what()
        time.sleep(0.2)


def wait_for_topics(acting: Acting) -> None:
    wait_until(lambda: TOPIC in acting.topics(acting.slave), lambda: acting.topics(acting.slave))


def wait_active(acting: Acting) -> None:
    wait_until(acting.slave_is_active, lambda: acting.figures(acting.slave))


def send(acting: Acting, count: int, properties: dict[str, str] | None = None) -> None:
    """To the master of the slave, whatever masters there are."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in (properties or {}).items())
    for _ in range(count):
        request = SendMessageRequest(
            producer_group="writer",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=int(time.time() * 1_000),
            flag=0,
            properties=text,
        )
        acting.ask(acting.master, catalog.SEND_MESSAGE, request, b"x")


def test_an_acting_master_has_no_topics_before_its_first_copy(made) -> None:
    """an_acting_master_has_no_topics_yet."""
    acting = made(slaveReadEnable="true")
    send(acting, 3)
    acting.act("kill")
    wait_active(acting)
    assert acting.pull(acting.slave)[0] == 17  # TOPIC_NOT_EXIST
    time.sleep(70)  # the next copy does not come
    assert acting.pull(acting.slave)[0] == 17


@pytest.mark.parametrize(("readable", "code"), [("false", 2), ("true", 0)])
def test_an_acting_master_is_read_only_if_slaves_are(made, readable: str, code: int) -> None:
    """an_acting_master_is_not_read; and a_slave_holds_pulls_of_its_master_that_is_back."""
    acting = made(slaveReadEnable=readable)
    send(acting, 3)
    wait_for_topics(acting)
    acting.act("kill")
    wait_active(acting)
    assert acting.pull(acting.slave)[0] == code
    if readable == "true":
        acting.act("start")
        wait_until(lambda: not acting.slave_is_active(), lambda: acting.figures(acting.slave))
        answer, took_s = acting.pull(acting.slave, offset=3, hold_ms=HOLD_MS)
        assert answer == 19
        assert took_s >= HOLD_MS / 1_000, "it is held, although the master is back"


def test_a_returning_master_takes_the_older_offsets_of_its_slave(made) -> None:
    """a_master_takes_old_offsets_back."""
    acting = made()
    send(acting, 3)
    acting.commit(acting.master, 1)
    wait_until(lambda: acting.committed(acting.slave) == 1, lambda: acting.committed(acting.slave))
    acting.commit(acting.master, 3)
    time.sleep(7)  # it writes its offsets every 5 s
    acting.act("kill")
    acting.act("start")
    wait_until(
        lambda: acting.committed(acting.master) == 1, lambda: acting.committed(acting.master)
    )
    assert acting.committed(acting.slave) == 1


def test_without_another_master_open_half_messages_are_skipped(made) -> None:
    """open_transactions_are_skipped: the master that is back has the slave's progress."""
    acting = made(transactionCheckInterval="4000", transactionTimeOut="60000")
    wait_for_topics(acting)
    send(acting, 1, {"TRAN_MSG": "true", "PGROUP": "writer"})
    wait_until(lambda: acting.next_offset(acting.slave, HALF) == 1, lambda: "no half message")
    acting.act("kill")
    wait_active(acting)

    def skipped() -> int | None:
        return acting.committed(acting.slave, PROGRESS_GROUP, HALF)

    wait_until(lambda: skipped() == 1, skipped)
    acting.act("start")
    wait_until(lambda: not acting.slave_is_active(), lambda: acting.figures(acting.slave))
    assert acting.committed(acting.master, PROGRESS_GROUP, HALF) == 1
    assert acting.next_offset(acting.master, HALF) == 1, "nobody has put it back to be asked for"


def test_delayed_messages_come_again_from_a_slave_with_old_progress(made) -> None:
    """messages_come_twice_through_the_bridge."""
    acting = made(brokers=2, enableRemoteEscape="true")
    other = acting.cluster.brokers["broker-b"]
    wait_for_topics(acting)
    send(acting, 5, {"DELAY": "1"})
    wait_until(lambda: acting.next_offset(acting.master) == 5, lambda: "not delivered")
    assert acting.next_offset(other) == 0
    acting.act("kill")
    wait_active(acting)
    wait_until(lambda: acting.next_offset(other) == 5, lambda: acting.next_offset(other))


def test_timers_are_dropped_if_no_other_master_is_there(made) -> None:
    """timers_are_given_up."""
    acting = made(brokers=2, enableRemoteEscape="true")
    other = acting.cluster.brokers["broker-b"]
    wait_for_topics(acting)
    send(acting, 1, {"TIMER_DELAY_MS": "30000"})
    send(acting, 1, {"TIMER_DELAY_MS": "100000"})
    began_s = time.monotonic()
    time.sleep(3)  # the slave copies them
    acting.act("kill")
    acting.act("kill", "broker-b")
    time.sleep(began_s + 60 - time.monotonic())
    acting.act("start", "broker-b")
    wait_until(lambda: acting.next_offset(other) >= 1, lambda: acting.next_offset(other))
    acting.act("start")
    time.sleep(30)
    assert acting.next_offset(other) + acting.next_offset(acting.master) == 1, "one is lost"
