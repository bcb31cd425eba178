"""Topics of an elected master: those that it copied last, as a slave."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.state.topic_table import TopicTable
from rocketmq_emulator.facts import PowerLost, Queue, TopicChanged, TopicCreated
from rocketmq_emulator.facts.journal import Entry

MASTER, SLAVE, LEFT = "broker-a", "broker-a-1", "broker-a-0"
LATER_US = 10_000_000


def orders(count: int) -> TopicCreated:
    return TopicCreated("orders", count, count, 6, "admin")


def a_table(*topics: TopicCreated | TopicChanged) -> TopicTable:
    table = TopicTable()
    for seq, topic in enumerate(topics):
        changes(table, topic, seq)
    return table


def changes(table: TopicTable, topic: TopicCreated | TopicChanged, seq: int = 9) -> None:
    table.table()[type(topic)](topic, Entry(seq, 0, seq, MASTER, topic))


def test_an_elected_master_has_the_topics_of_its_last_copy() -> None:
    table = a_table(orders(4))
    table.copied(SLAVE, MASTER, LATER_US)
    changes(table, TopicChanged("orders", 6, 6, 6))
    changes(table, TopicCreated("later", 2, 2, 6, "admin"))
    assert not table.has_lost(Queue("orders", MASTER, 5))
    table.moved(MASTER, SLAVE, LEFT, 100)
    assert table.readable_count("orders", MASTER) == 4
    assert table.brokers_of("later") == set()
    assert table.changed_us(MASTER) == 100
    lost = [number for number in range(6) if table.has_lost(Queue("orders", MASTER, number))]
    assert lost == [4, 5]
    assert table.has_lost(Queue("later", MASTER, 0))


def test_a_former_master_has_its_own_topics_until_it_copies() -> None:
    def again(*, copies: bool) -> int:
        table = a_table(orders(4))
        table.copied(SLAVE, MASTER, LATER_US)
        changes(table, TopicChanged("orders", 6, 6, 6))
        table.moved(MASTER, SLAVE, LEFT, 100)
        if copies:
            table.copied(LEFT, MASTER, LATER_US)
        table.moved(MASTER, LEFT, SLAVE, 200)
        return table.readable_count("orders", MASTER)

    assert (again(copies=False), again(copies=True)) == (6, 4)


def test_a_topic_that_a_tool_grows_once_more_has_lost_nothing() -> None:
    table = a_table(orders(4))
    table.copied(SLAVE, MASTER, LATER_US)
    changes(table, TopicChanged("orders", 6, 6, 6))
    table.moved(MASTER, SLAVE, LEFT, 100)
    changes(table, TopicChanged("orders", 6, 6, 6))
    assert not table.has_lost(Queue("orders", MASTER, 5))


def test_a_topic_that_only_a_slave_has_is_in_no_route() -> None:
    table = a_table(orders(4))
    table.copied(SLAVE, MASTER, LATER_US)
    table.changed_at_slave(TopicCreated("%RETRY%billing", 1, 1, 6, "heartbeat"), SLAVE)
    assert table.route("%RETRY%billing") == []
    table.moved(MASTER, SLAVE, LEFT, 100)
    assert table.readable_count("%RETRY%billing", MASTER) == 1


def test_a_slave_that_lost_its_power_may_be_elected_without_any_topic() -> None:
    table = a_table(orders(4))
    table.copied(SLAVE, MASTER, LATER_US)
    table.lost_power(PowerLost(0, 0, 0, ("topics.json",)), SLAVE)
    table.moved(MASTER, SLAVE, LEFT, 100)
    assert table.has_lost(Queue("orders", MASTER, 0))
    assert not table.is_sure("orders", MASTER)
    changes(table, TopicChanged("orders", 4, 4, 6))
    assert not table.has_lost(Queue("orders", MASTER, 0))


def test_a_copy_after_a_loss_of_power_is_whole() -> None:
    table = a_table(orders(4))
    table.lost_power(PowerLost(0, 0, 0, ("topics.json",)), SLAVE)
    table.copied(SLAVE, MASTER, LATER_US)
    table.moved(MASTER, SLAVE, LEFT, 100)
    assert not table.has_lost(Queue("orders", MASTER, 0))


@pytest.mark.parametrize(("after_us", "is_sure"), [(2_900_000, False), (3_100_000, True)])
def test_a_copy_may_be_older_than_a_change_in_its_call(after_us: int, *, is_sure: bool) -> None:
    """Upstream: BrokerOuterAPI.getAllTopicConfig waits 3 s for a reply that may be on its way."""
    table = a_table(orders(4))
    changes(table, TopicChanged("orders", 6, 6, 6), LATER_US)
    changes(table, TopicChanged("orders", 7, 7, 6), LATER_US + 1)
    table.copied(SLAVE, MASTER, LATER_US + after_us)
    assert table.is_sure("orders", MASTER)
    version = table.version
    table.moved(MASTER, SLAVE, LEFT, 100)
    lost = [number for number in range(7) if table.has_lost(Queue("orders", MASTER, number))]
    assert lost == ([] if is_sure else [4, 5, 6])
    assert table.is_sure("orders", MASTER) == is_sure
    assert (table.version > version) == (not is_sure)
    changes(table, TopicChanged("orders", 7, 7, 6))  # once more, by a tool
    assert not table.has_lost(Queue("orders", MASTER, 6))


def test_the_next_copy_is_sure_again() -> None:
    table = a_table(orders(4))
    changes(table, TopicChanged("orders", 6, 6, 6), LATER_US)
    table.copied(SLAVE, MASTER, LATER_US + 1)
    table.copied(SLAVE, MASTER, 2 * LATER_US)
    table.moved(MASTER, SLAVE, LEFT, 100)
    assert table.is_sure("orders", MASTER)
    assert not table.has_lost(Queue("orders", MASTER, 5))
