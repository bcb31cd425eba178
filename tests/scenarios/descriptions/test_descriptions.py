"""Facts as sentences, many facts of one kind as one line, and the owners of a queue."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MessageStored,
    NodeKilled,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
    RebalancePassed,
    SendRefused,
    TopicCreated,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    all_facts,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, fault_in_words, words_of
from rocketmq_emulator.scenarios.descriptions.queue_history import (
    history_lines,
    queue_histories_of,
)
from rocketmq_emulator.scenarios.descriptions.sentences import SENTENCES, in_words, sentence_of
from rocketmq_emulator.scenarios.descriptions.summaries import (
    VARYING_FIELDS,
    key_of,
    line_of_run,
    runs_of,
)
from tests.support.checks.small_journals import (
    EPOCH_MS,
    PEER,
    Q0,
    Q1,
    AJournal,
    a_member,
    client_of,
)

OWN, OTHER = client_of("billing-1"), client_of("billing-2")
KILL = '{"fault":"kill","node":"billing-1"}'


def a_journal() -> AJournal:
    """Two members, of which the first has sent heartbeats over ``PEER``."""
    journal = AJournal().runs().store().consumer("billing-1").consumer("billing-2")
    journal.note("broker-a", a_member(OWN))
    return journal.note("broker-a", a_member(OTHER, "10.0.0.5:1"))


def sentences(journal: AJournal) -> list[str]:
    names = NodeNames(journal.entries)
    return [sentence_of(entry, names) for entry in journal.entries]


def last_sentence(journal: AJournal) -> str:
    return sentences(journal)[-1]


def lines(journal: AJournal) -> list[str]:
    names = NodeNames(journal.entries)
    return [line_of_run(run, names).text for run in runs_of(journal.entries, names)]


def history(journal: AJournal, queue: Queue = Q0, since_us: int = 0) -> list[str]:
    pair, names = ("billing", queue), NodeNames(journal.entries)
    found = queue_histories_of(journal.entries, names, [pair], journal.now_us)
    return history_lines(found[pair], names, since_us)


# Sentences ----------------------------------------------------------------------------------


def test_members_are_called_by_their_nodes_not_by_addresses_or_client_ids() -> None:
    journal = a_journal().committed(7)
    assert (
        last_sentence(journal)
        == "got from billing-1 the commit of 7 in orders@broker-a:0 (billing)"
    )
    journal.note("billing-2", RebalancePassed("billing", "orders", 4, (OWN, OTHER), 2, "timer"))
    assert last_sentence(journal).endswith("2 of 4 queues; members: billing-1, billing-2")


def test_an_address_is_that_of_the_member_that_joined_over_it_last() -> None:
    journal = a_journal().committed(7).at_s(5).note("broker-a", a_member(OTHER, PEER))
    journal.at_s(6).committed(8)
    names = NodeNames(journal.entries)
    assert names.at("broker-a", PEER, 1_000_000) == "billing-1"
    assert names.at("broker-a", PEER, 6_000_000) == "billing-2"
    assert names.at("broker-a", "10.0.0.77:1", 6_000_000) == "10.0.0.77:1"


def test_what_a_broker_answered_is_told_by_the_name_of_its_code() -> None:
    journal = a_journal().pulled(3, 2)
    assert last_sentence(journal) == (
        "answered the pull of billing-1 from 3 of orders@broker-a:0 (billing): 2 messages, next 5"
    )
    journal.note("broker-a", PullAnswered("billing", Q0, 9, 21, 0, 4, PEER, 0))
    assert "PULL_OFFSET_MOVED (21), next 4" in last_sentence(journal)


def test_a_held_pull_is_told_with_how_long_it_may_be_held() -> None:
    journal = a_journal().at_s(2)
    journal.note("broker-a", PullHeld("billing", Q0, 3, EPOCH_MS + 17_000, PEER, 1))
    assert last_sentence(journal).endswith("for 15 s at most")


def test_queues_of_one_broker_are_told_together() -> None:
    journal = a_journal().claimed("billing-1", Q0, Q1, offsets=(4, 7))
    assert last_sentence(journal) == "claimed for billing: orders@broker-a:0 from 4, 1 from 7"
    journal.released("billing-1", Q0, Q1)
    assert last_sentence(journal) == "released for billing (not mine): orders@broker-a:0, 1"


def test_the_end_of_a_fault_says_which_fault_it_was() -> None:
    journal = a_journal().note(
        "world", FaultBegan(4, '{"fault":"cut","between":["a","b"]}', ("a",))
    )
    assert last_sentence(journal) == "a fault began: cut between a, b"
    journal.note("world", FaultEnded(4, "healed", 1))
    assert "cut between a, b; it acted 1 time" in last_sentence(journal)
    assert fault_in_words("no JSON") == "no JSON"


def test_the_page_that_upstream_s_errors_name_is_left_out() -> None:
    error = "code 24: the group does not exist\nSee http://rocketmq.apache.org/docs/faq/"
    journal = a_journal().note("billing-1", PullFailed("billing", Q0, error))
    assert last_sentence(journal).endswith("for billing: code 24: the group does not exist")


def test_a_fact_without_a_sentence_is_told_by_its_fields() -> None:
    entry = Entry(1, 0, 0, "broker-a", QueuesLocked("billing", OWN, (), (Q0,)))
    assert in_words(entry) == (
        f"QueuesLocked: group billing, client {OWN}, granted none, refused orders@broker-a:0"
    )


@pytest.mark.parametrize("kind", SENTENCES, ids=lambda kind: kind.__name__)
def test_every_sentence_can_be_told_of_a_fact_with_any_fields(kind: type[Fact]) -> None:
    values = {"tuple": (), "int": 1, "bool": True, "Queue": Q0, "str": "x"}
    fields = {
        name: next((value for word, value in values.items() if word in annotation), "x")
        for name, annotation in kind.__annotations__.items()
        if name in kind.__struct_fields__
    }
    entry = Entry(1, EPOCH_MS, 0, "broker-a", kind(**fields))
    assert sentence_of(entry, NodeNames([]))


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.__name__)
def test_every_fact_has_a_sentence(kind: type[Fact]) -> None:
    """A warning has its own, which a node prints, too."""
    assert kind in SENTENCES or kind.sentence is not Fact.sentence


def test_the_steps_of_a_transaction_are_told_by_what_was_done() -> None:
    journal = a_journal().note("broker-a", HalfMessageStored(Q0, 0, 0, "shop", "K1", -1))
    journal.note("broker-a", TransactionChecked(Q0, 0, 1, 1, "", "shop", "K1"))
    journal.note("broker-a", ImmuneHalfStoredAgain(Q0, 1, 2, 2, 90_000, "shop", "K1"))
    ended = TransactionEnded(
        Q0, 2, "commit", "shop", by_check=True, stored_offset=7, uniq_key="K1"
    )
    journal.note("broker-a", ended)
    assert sentences(journal)[-4:] == [
        "put aside the half message K1 of orders@broker-a:0, from shop",
        "asked about K1, check 1 of shop: nobody, as no producer is connected",
        "asked nobody about K1, check 2 of shop: it is immune for another 90.0 s",
        "committed K1, at 7 of orders@broker-a:0, as shop answered a check",
    ]


def test_a_producer_that_answers_a_check_is_called_by_its_node() -> None:
    journal = a_journal()
    journal.note("broker-a", TransactionChecked(Q0, 0, 1, 1, "10.0.0.9@1", "shop", "K1"))
    journal.note("producer-1", TransactionAnswered("shop", "K1", "commit", ""))
    assert sentences(journal)[-2:] == [
        "asked about K1, check 1 of shop: producer-1",
        "answered the check of K1 with commit",
    ]


def test_half_messages_of_one_queue_are_one_line() -> None:
    journal = a_journal()
    for number in range(3):
        half = HalfMessageStored(Q0, number, 0, "shop", f"K{number}", -1)
        journal.at_s(number).note("broker-a", half)
    assert lines(journal)[-1].startswith(
        "3 half messages of orders@broker-a:0 were put aside, from shop, between 0.0 s and 2.0 s"
    )


def test_what_may_differ_within_a_run_are_names_of_fields() -> None:
    known = {name for kind in all_facts() for name in kind.__struct_fields__}
    assert known >= VARYING_FIELDS


def test_names_are_found_in_a_sentence_with_its_stops() -> None:
    assert {"billing", "orders@broker-a:0"} <= words_of("billing, of orders@broker-a:0 (late)")


# Runs ---------------------------------------------------------------------------------------


def test_thirty_commits_in_a_row_are_one_line() -> None:
    journal = a_journal()
    journal.each(range(31), lambda number: journal.at_s(10 + 5 * number).committed(12 + number))
    assert lines(journal)[-1] == (
        "31 commits of orders@broker-a:0 by billing-1 (billing), from 12 to 42, "
        "between 10.0 s and 160.0 s"
    )


def test_runs_of_two_queues_that_alternate_are_two_lines() -> None:
    journal = a_journal()
    journal.each(range(5), lambda number: journal.committed(number).committed(number, Q1))
    assert [line[:27] for line in lines(journal)[-2:]] == [
        "5 commits of orders@broker-",
        "5 commits of orders@broker-",
    ]


def test_a_run_ends_where_its_queue_changes_hands_or_evidence_comes() -> None:
    journal = a_journal().committed(1).committed(2).claimed("billing-2", Q0).committed(3)
    assert len([line for line in lines(journal) if "orders@broker-a:0" in line]) == 3
    journal = a_journal().committed(1).committed(2).committed(3)
    names, alone = NodeNames(journal.entries), {key_of(journal.entries[-2])}
    counts = [len(run.entries) for run in runs_of(journal.entries, names, alone)]
    assert counts[-3:] == [1, 1, 1]


def test_commits_of_two_members_and_pulls_with_two_codes_are_runs_of_their_own() -> None:
    journal = a_journal().committed(1).committed(1, peer="10.0.0.5:1")
    assert len(lines(journal)) == len(journal.entries)
    for code in (0, 19, 19):
        journal.note("broker-a", PullAnswered("billing", Q0, 9, code, 0, 4, PEER, 0))
    assert lines(journal)[-1].startswith(
        "2 pulls of orders@broker-a:0 by billing-1 (billing) were"
    )
    assert "PULL_NOT_FOUND (19)" in lines(journal)[-1]


# Histories of queues ------------------------------------------------------------------------


def test_the_story_of_a_queue_says_who_holds_it_from_where_and_its_last_acts() -> None:
    journal = a_journal().committed(4).at_s(1).claimed("billing-1", Q0, offsets=(4,))
    journal.at_s(2).pulled(4, 1).at_s(3).given("billing-1", 4).at_s(4).consumed("billing-1", 4)
    journal.at_s(5).committed(5)
    assert history(journal)[:2] == [
        (
            "orders@broker-a:0 of billing is held by billing-1 since 1.000 s, from 4 (4 had been "
            "committed)"
        ),
        (
            "billing-1's last actions there: a pull from 4, answered at 2.000 s (1 message, next "
            "5); 4 given at 3.000 s; 4 consumed at 4.000 s; 5 committed at 5.000 s"
        ),
    ]


def test_a_pull_that_was_the_last_for_long_is_told_as_that() -> None:
    journal = a_journal().claimed("billing-1", Q0, offsets=(0,)).at_s(2)
    journal.note("billing-1", PullFailed("billing", Q0, "eof")).at_s(92).committed(0)
    assert "failed at 2.000 s (eof) and none since, for 90 s; " in history(journal)[1]


def test_a_queue_that_nobody_holds_is_told_with_who_held_it_and_the_last_rebalances() -> None:
    journal = a_journal().at_s(1).claimed("billing-1", Q0, offsets=(0,))
    journal.at_s(9).note("world", FaultBegan(1, KILL, ("billing-1",)))
    passed = RebalancePassed("billing", "orders", 2, (OWN, OTHER), 1, "timer")
    journal.at_s(20).note("billing-2", passed)
    told_lines = history(journal)
    assert told_lines[0] == (
        "no member holds orders@broker-a:0 of billing since 9.000 s, when billing-1 met the fault "
        "kill, which had it since 1.000 s"
    )
    assert any("last rebalance: at 20.000 s, billing-2 computed" in line for line in told_lines)


@pytest.mark.parametrize(
    ("end", "ended"),
    [
        (lambda journal: journal.stopped("billing-1"), "left the group"),
        (lambda journal: journal.note("world", NodeKilled("billing-1")), "was killed"),
        (lambda journal: journal.consumer("billing-1"), "was started again"),
        (lambda journal: journal.released("billing-1", Q0), "released it (not mine)"),
    ],
)
def test_how_a_hold_ended_is_told(end, ended) -> None:
    journal = a_journal().at_s(1).claimed("billing-1", Q0)
    end(journal.at_s(9))
    assert f"billing-1 {ended}, which" in history(journal)[0]


def test_refusals_on_the_way_are_told_as_runs_and_whose_the_lock_is() -> None:
    journal = a_journal().note("broker-a", QueuesLocked("billing", OWN, (Q0,), ()))
    for number in range(17):
        refused = QueuesLocked("billing", OTHER, (), (Q0, Q1))
        journal.at_s(20 + 20 * number).note("broker-a", refused)
    told_lines = history(journal)
    assert any(
        line.startswith("its lock was last granted to billing-1, by") for line in told_lines
    )
    assert told_lines[-1] == (
        "meanwhile, broker-a: 17 times between 20.0 s and 340.0 s: refused billing-2 the lock of "
        "orders@broker-a:0, which another member has (billing)"
    )
    assert history(journal, since_us=journal.now_us + 1)[-1].startswith("its lock")


def test_a_retry_in_a_queue_that_the_topic_does_not_have_is_seen() -> None:
    retries = Queue("%RETRY%billing", "broker-a", 1)
    journal = a_journal().note("broker-a", TopicCreated(retries.topic, 1, 1, 6, "heartbeat"))
    journal.note("broker-a", MessageStored(retries, 0, 0, "K", 1))
    journal.note("broker-a", SendRefused(retries.topic, 2, "busy"))
    told_lines = history(journal, retries)
    assert told_lines[0] == (
        "no member had claimed %RETRY%billing@broker-a:1 of billing: %RETRY%billing has 1 queue "
        "to read at broker-a, from 0 on"
    )
    assert "refused a message of %RETRY%billing: SYSTEM_BUSY (2), busy" in told_lines[-1]


def test_the_history_of_one_member_leaves_that_of_others_as_it_is() -> None:
    journal = AJournal().runs()
    for name in ("news-1", "news-2"):
        journal.consumer(name, group="billing", broadcast=True)
        journal.claimed(name, Q0, offsets=(3,))
    pair, names = ("billing", Q0), NodeNames(journal.entries)
    found = queue_histories_of(journal.entries, names, [pair], journal.now_us)[pair]
    for name in ("news-1", "news-2"):
        assert [hold.node for hold in found.of_node(name).holds] == [name]


def test_a_broadcasting_member_has_no_commits_to_miss() -> None:
    journal = AJournal().runs().consumer("news-1", group="billing", broadcast=True)
    journal.claimed("news-1", Q0, offsets=(3,))
    told_lines = history(journal)
    assert told_lines[0].endswith("held by news-1 since 0.000 s, from 3")
    assert told_lines[1] == "news-1's last actions there: no pull; no message"
