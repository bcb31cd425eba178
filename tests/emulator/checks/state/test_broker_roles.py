"""Rules see broker names instead of nodes: who is the master of a name at each moment."""

from __future__ import annotations

from rocketmq_emulator.checks.state.broker_roles import ElectedMasters
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    FaultBegan,
    LogFlushed,
    MessageSent,
    MessageStored,
    NodeKilled,
    NodeStarted,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

QUEUE = Queue("orders", "broker-a", 0)
FLUSHED = LogFlushed(position=100, flushed_bytes=100, message_count=1)


def role(role: str, epoch: int = 1) -> BrokerRoleChanged:
    return BrokerRoleChanged(role, 1, "10.0.0.3:10911", epoch)


def started(address: str) -> NodeStarted:
    return NodeStarted("broker", address, "5.3.3", 5)


class Journal:
    """Entries of several nodes as rules see them, and when each was noted."""

    def __init__(self) -> None:
        self.roles = ElectedMasters()
        self.now_us = 0
        self._seq: dict[str, int] = {}

    def see(self, node: str, fact) -> list[tuple[str, str]]:
        self.now_us += 1_000
        self._seq[node] = self._seq.get(node, 0) + 1
        entry = Entry(self._seq[node], 0, self.now_us, node, fact)
        seen = self.roles.seen(entry) if self.roles.needs(type(fact)) else (entry,)
        return [(each.node, type(each.fact).__name__) for each in seen]


def an_election() -> Journal:
    """broker-a was the master, and broker-a-1 is elected."""
    journal = Journal()
    journal.see("broker-a", started("10.0.0.3:10911"))
    journal.see("broker-a", role("master"))
    journal.see("broker-a-1", started("10.0.0.4:10911"))
    journal.see("broker-a-1", role("slave"))
    journal.see("broker-a-1", role("master", 2))
    return journal


def test_without_elections_every_node_has_its_own_name() -> None:
    journal = Journal()
    assert journal.see("broker-a", role("master")) == [("broker-a", "BrokerRoleChanged")]
    assert journal.see("broker-a-1", role("slave")) == [("broker-a-1", "BrokerRoleChanged")]
    assert journal.see("broker-a-1", FLUSHED) == [("broker-a-1", "LogFlushed")]
    assert journal.roles.moves == []


def test_the_elected_slave_is_seen_as_the_name_and_the_old_master_as_a_slave() -> None:
    journal = an_election()
    assert journal.see("broker-a-1", FLUSHED) == [("broker-a", "LogFlushed")]
    assert journal.see("broker-a", FLUSHED) == [("broker-a-0", "LogFlushed")]
    assert journal.see("broker-b", FLUSHED) == [("broker-b", "LogFlushed")]
    assert journal.roles.seen_at("10.0.0.3:10911") == "broker-a-0"


def test_an_election_is_the_end_of_a_process_and_the_start_of_another() -> None:
    journal = an_election()
    assert journal.see("broker-a", role("master", 3)) == [
        ("broker-a", "NodeKilled"),
        ("broker-a", "BrokerRoleChanged"),
        ("broker-a", "NodeStarted"),
    ]
    assert journal.roles.move is not None
    assert journal.see("broker-a-1", FLUSHED) == [("broker-a-1", "LogFlushed")]
    assert journal.roles.move is None
    assert [each.node for each in journal.roles.moves] == ["broker-a-1", "broker-a"]


def test_the_same_master_again_moves_nothing() -> None:
    journal = an_election()
    assert journal.see("broker-a-1", role("master", 3)) == [("broker-a", "BrokerRoleChanged")]
    assert (len(journal.roles.moves), journal.roles.epochs) == (1, {"broker-a": 3})


def test_a_replaced_master_stores_in_no_queue_of_the_name() -> None:
    journal = an_election()
    stored = MessageStored(QUEUE, 7, 700, "K7", 100)
    assert journal.see("broker-a", stored) == []
    assert journal.see("broker-a-1", stored) == [("broker-a", "MessageStored")]
    sent = MessageSent("orders", QUEUE, 7, "K7", 1, 3, "SEND_OK")
    assert journal.roles.is_of_replaced(sent)


def test_a_delayed_message_of_a_replaced_master_is_acknowledged_where_it_was_sent_to() -> None:
    """With the offset of the queue where it waits."""
    journal, retry = an_election(), Queue("%RETRY%billing", "broker-a", 0)
    waiting = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
    journal.see("broker-a", MessageStored(waiting, 1, 700, "K7", 100, real_topic=retry.topic))

    def is_of_replaced(queue: Queue = retry, offset: int = 1, key: str = "K7") -> bool:
        sent = MessageSent(queue.topic, queue, offset, key, 1, 3, "SEND_OK")
        return journal.roles.is_of_replaced(sent)

    assert is_of_replaced()
    assert not is_of_replaced(QUEUE)
    assert not is_of_replaced(offset=2)
    assert not is_of_replaced(key="K8")


def test_a_slave_that_is_replaced_by_the_first_master_stores_in_no_queue_either() -> None:
    journal = an_election()
    journal.see("broker-a", role("master", 3))  # now every node has its own name
    stored = MessageStored(QUEUE, 7, 700, "K7", 100)
    assert journal.see("broker-a-1", stored) == []
    assert journal.see("broker-a", stored) == [("broker-a", "MessageStored")]
    journal.see("broker-a-1", role("slave", 3))
    assert not journal.roles.needs(MessageStored)


def test_a_master_that_learns_late_of_its_election_has_been_replaced_already() -> None:
    journal = an_election()
    journal.see("broker-a", role("master", 4))
    assert journal.see("broker-a-1", role("master", 3)) == [("broker-a-1", "BrokerRoleChanged")]
    assert journal.see("broker-a-1", MessageStored(QUEUE, 7, 700, "K7", 100)) == []
    assert journal.roles.masters == {"broker-a": "broker-a"}


def test_a_name_is_vacant_while_its_master_is_a_slave_and_the_elected_broker_has_no_role() -> None:
    journal = an_election()
    journal.see("broker-a", role("slave", 2))
    assert journal.roles.vacant == set()
    journal.see("broker-a-1", role("slave", 3))
    assert journal.roles.vacant == {"broker-a"}
    journal.see("broker-a", role("master", 3))
    assert journal.roles.vacant == set()


def test_faults_of_any_node_disturb_the_name_but_the_death_of_a_slave_does_not() -> None:
    journal = an_election()

    def nodes(fault: str, node: str) -> tuple[str, ...]:
        (seen,) = journal.roles.seen(
            Entry(1, 0, journal.now_us, "world", FaultBegan(1, f'{{"fault":"{fault}"}}', (node,)))
        )
        return seen.fact.nodes

    assert nodes("slow_disk", "broker-a") == ("broker-a-0", "broker-a")
    assert nodes("kill", "broker-a") == ("broker-a-0",)
    assert nodes("kill", "broker-a-1") == ("broker-a",)
    killed = Entry(2, 0, journal.now_us, "world", NodeKilled("broker-a"))
    assert journal.roles.seen(killed)[0].fact == NodeKilled("broker-a-0")


def test_keys_and_texts_name_the_nodes_of_the_journal() -> None:
    journal = an_election()
    roles, now_us = journal.roles, journal.now_us
    assert roles.true_key(EntryKey(now_us + 1, "broker-a", 9)).node == "broker-a-1"
    assert roles.true_key(EntryKey(now_us - 1, "broker-a", 9)).node == "broker-a"
    assert roles.true_key(EntryKey(now_us + 1, "broker-a-0", 9)).node == "broker-a"
    assert roles.true_text("broker-a-0 has 3 messages") == "broker-a has 3 messages"


def test_state_of_a_node_moves_with_it() -> None:
    journal = an_election()
    (move,) = journal.roles.moves
    known = {("broker-a", "x"): 1, ("broker-a-1", "y"): 2, ("broker-b", "z"): 3}
    move.rekey(known)
    assert known == {("broker-a-0", "x"): 1, ("broker-a", "y"): 2, ("broker-b", "z"): 3}
