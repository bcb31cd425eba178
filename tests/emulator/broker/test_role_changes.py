"""A role change at a running broker: what stops, what begins, and in which order."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.role_changes import RoleChanges
from rocketmq_emulator.broker.service import ScheduledTasks
from rocketmq_emulator.broker.state.consistency import reset_broker
from rocketmq_emulator.facts import DelayedDelivered
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.controller import SyncStateSet
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import SUBSCRIPTION
from rocketmq_emulator.protocol.requests.controller import NotifyBrokerRoleChangedRequest
from rocketmq_emulator.protocol.versions import R_5_3_3
from tests.support.broker.bench import EPOCH_MS, Bench

TOPIC = "TopicTest"
MASTER = "10.0.0.2:10911"
SEND = RequestCode.SEND_MESSAGE_V2


class Changing:
    """A broker in controller mode whose role a test changes; ``done`` lists the outlets' calls."""

    def __init__(self, **settings) -> None:
        given = {
            "release": "5.3.3",
            "enable_controller_mode": True,
            "controllers": ("10.0.9.1:9878",),
            **settings,
        }
        self.bench = Bench(**given)
        self.broker = self.bench.broker
        self.done: list = []
        self.roles = roles = RoleChanges(self.broker, lambda: EPOCH_MS)
        roles.register_soon = lambda: self._did("register")
        roles.special_services = lambda active: self._did(f"special {active}")
        roles.restart_checks = lambda: self._did("checks")
        roles.stop_checks = lambda: self._did("no checks")
        roles.restart_sync = lambda: self._did("sync")
        roles.stop_sync = lambda: self._did("no sync")
        roles.set_fenced(is_fenced=True)
        roles.set_controller_id(1)

    def _did(self, what: str) -> None:
        config = self.broker.config
        master = self.broker.slave_synchronize and self.broker.slave_synchronize.master_address
        self.done.append((what, config.broker_role, config.broker_id, master))

    def lead(self, epoch: int) -> None:
        self.roles.use_sync_state_set({1})
        self.roles.change_to_master(epoch)

    def follow(self, epoch: int) -> None:
        self.roles.change_to_slave(MASTER, epoch, 1)

    def send_code(self) -> int:
        return self.bench.client().send_message(TOPIC, b"one").code


@pytest.fixture
async def changing(autojump_clock: MockClock) -> Changing:
    return Changing()


async def test_a_new_master_ends_the_copying_first_and_registers_last(changing) -> None:
    changing.roles.set_fenced(is_fenced=True)
    changing.lead(1)
    before, master = ("ASYNC_MASTER", 0, None), ("SYNC_MASTER", 0, None)
    assert changing.done == [
        ("no sync", *before),
        ("special True", *master),
        ("checks", *master),
        ("register", *master),
    ]


async def test_a_new_slave_ends_its_checks_first_and_registers_last(changing) -> None:
    changing.lead(1)
    changing.done.clear()
    changing.follow(2)
    slave = ("SLAVE", 1)
    assert changing.done == [
        ("no checks", "SYNC_MASTER", 0, None),
        ("special False", *slave, None),
        ("sync", *slave, MASTER),
        ("register", *slave, MASTER),
    ]


async def test_a_master_again_follows_nobody(changing) -> None:
    changing.follow(1)
    changing.lead(2)
    assert changing.broker.slave_synchronize.master_address is None
    assert changing.broker.is_sync_master


async def test_the_same_role_in_a_new_epoch_only_registers(changing) -> None:
    changing.lead(1)
    changing.done.clear()
    changing.roles.remain_master(2)
    changing.follow(3)
    changing.roles.remain_slave(MASTER, 4)
    assert [what for what, *_ in changing.done if what == "register"] == ["register"] * 3
    assert next(what for what, *_ in changing.done) == "register"
    assert changing.done[-1][0] == changing.done[-2][0] == "register"


async def test_r50_the_version_of_the_topics_has_the_epoch_and_later_changes_keep_it(
    changing,
) -> None:
    topics = changing.broker.topics
    before = topics.data_version
    changing.lead(7)
    assert topics.data_version.state_version == 7
    assert topics.data_version.counter == before.counter + 1
    changing.send_code()  # creates the topic
    assert topics.data_version.state_version == 7
    assert topics.data_version.counter == before.counter + 2
    changing.broker.register_again(EPOCH_MS)
    assert topics.data_version.state_version == 7


async def test_sends_are_refused_without_a_role_taken_by_a_master_rejected_by_a_slave(
    changing,
) -> None:
    codes = [changing.send_code()]
    for change in (changing.lead, changing.follow, changing.lead):
        change(len(codes))
        codes.append(changing.send_code())
    assert codes == [ResponseCode.SERVICE_NOT_AVAILABLE, 0, ResponseCode.SYSTEM_BUSY, 0]


async def test_a_reset_keeps_the_role(changing) -> None:
    changing.follow(1)
    reset_broker(changing.broker, EPOCH_MS)
    assert (changing.broker.config.broker_role, changing.broker.config.broker_id) == ("SLAVE", 1)


async def test_pulls_follow_the_role(changing) -> None:
    """A slave answers an offset that it does not have with: ask again, at the master."""
    changing.lead(1)
    changing.send_code()
    config = msgspec.structs.replace(changing.broker.config, slave_read=True)
    changing.broker.reconfigure(config)
    codes = []
    for change, epoch in ((None, 0), (changing.follow, 2), (changing.lead, 3)):
        if change is not None:
            change(epoch)
        reply = changing.bench.client().pull(TOPIC, 99, flags=SUBSCRIPTION)
        assert reply is not None
        codes.append(reply.code)
    moved, again = ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY
    assert codes == [moved, again, moved]


async def test_a_notice_of_the_controller_is_answered_0_also_without_one(changing) -> None:
    header = NotifyBrokerRoleChangedRequest(
        master_broker_id=1, master_address=MASTER, master_epoch=1, sync_state_set_epoch=1
    )
    body = encode_body(SyncStateSet(sync_state_set=[1]), R_5_3_3)
    rpc = catalog.NOTIFY_BROKER_ROLE_CHANGED
    for bench in (changing.bench, Bench(release="5.3.3")):
        assert bench.client().must(rpc, header, body).code == 0


async def test_an_isolated_broker_runs_no_special_services(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    changing = Changing()
    tasks = ScheduledTasks(changing.broker, changing.bench.server, changing.bench.clock)
    tasks.start(nursery)
    assert not changing.broker.has_special_services
    changing.roles.special_services = tasks.change_special_services
    changing.lead(1)
    assert changing.broker.has_special_services
    changing.follow(2)
    assert not changing.broker.has_special_services
    assert changing.bench.facts(DelayedDelivered) == []


async def test_without_a_controller_the_table_of_a_master_has_its_handlers_alone(
    autojump_clock: MockClock,
) -> None:
    plain, led = Bench(release="5.3.3"), Changing().bench
    name = "SendMessageProcessor.send"
    assert plain.server.handlers[SEND][1].__qualname__ == name
    assert getattr(led.server.handlers[SEND][1], "__qualname__", "") != name
