"""END_TRANSACTION and the checks of a whole broker, in virtual time; invariants 40 to 43."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketmq_emulator.facts import (
    EndTransactionRefused,
    Queue,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import AdvanceTime, encode_extension_body
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import TRANSACTION_COMMIT, transaction_type
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.messages.records import decode_records
from rocketmq_emulator.protocol.requests.admin import ResumeCheckHalfMessageRequest
from rocketmq_emulator.protocol.requests.sending import (
    TRANSACTION_ROLLBACK,
    EndTransactionRequest,
)
from tests.support.broker.bench import EPOCH_MS
from tests.support.broker.store_makers import LAST_4, LAST_5
from tests.support.broker.transacting import (
    BOTH,
    INTERVAL_S,
    MARKS,
    a_bench,
    a_half,
    answer,
    asked,
    bodies,
    end,
    passes,
    position_in,
    stored,
)

NO_CODE = "not set any response code"

# Invariant 40 ---------------------------------------------------------------------------


@BOTH
async def test_invariant_40_a_half_message_is_invisible_until_a_commit_shows_one_copy(
    release: str,
) -> None:
    bench = a_bench(release)
    client = bench.client()
    first, second = a_half(client), a_half(client)
    assert (first.queue_id, first.queue_offset, second.queue_offset) == (1, 0, 1)
    assert [bodies(client, queue_id=n) for n in range(4)] == [[], [], [], []]
    assert end(client, first).remark is None
    (message,) = stored(client, queue_id=1)
    assert (message.body, message.queue_offset) == (b"half", 0)
    assert transaction_type(message.sys_flag) == TRANSACTION_COMMIT
    assert message.prepared_offset == position_in(first)
    assert message.born_ms == EPOCH_MS
    await passes(bench, 10 * INTERVAL_S[release])
    assert bodies(client) == [b"half"]
    ended = TransactionEnded(
        Queue("Orders", "broker-a", 1), 0, "commit", "pg", by_check=False, stored_offset=0,
        uniq_key="K1",
    )  # fmt: skip
    assert bench.facts(TransactionEnded) == [ended]


@BOTH
async def test_invariant_40_a_rollback_shows_nothing_and_is_not_checked(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    answer = end(client, a_half(client), commit_or_rollback=TRANSACTION_ROLLBACK)
    assert (answer.code, answer.remark) == (0, NO_CODE)
    await passes(bench, 10 * INTERVAL_S[release])
    assert bodies(client) == []
    assert asked(client) == []
    (fact,) = bench.facts(TransactionEnded)
    assert (fact.outcome, fact.stored_offset) == ("rollback", -1)


@BOTH
async def test_a_committed_message_keeps_the_properties_of_its_half_message(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    end(client, a_half(client, TAGS="A", own="x"))
    (message,) = stored(client, queue_id=1)
    found = message.property_map()
    kept = {**MARKS, "TAGS": "A", "own": "x", "REAL_TOPIC": "Orders", "REAL_QID": "1"}
    assert found.items() >= kept.items()
    assert ("__transactionId__" in found) == (release == LAST_5)


@BOTH
async def test_an_unknown_outcome_has_no_reply_and_changes_nothing(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    half = a_half(client)
    header = EndTransactionRequest(half.queue_offset, position_in(half), 0, "pg", "K1")
    end_position = bench.broker.store.log.end_position
    assert client.ask(catalog.END_TRANSACTION, header) is None
    assert bench.broker.store.log.end_position == end_position


async def test_a_retry_with_a_delay_is_a_half_message_only_before_5_0() -> None:
    for release, held in ((LAST_4, True), (LAST_5, False)):
        client = a_bench(release).client()
        text = properties_text({**MARKS, "DELAY": "1"}, trailing=True)
        client.sent("Orders", properties=text, reconsume_times=1)
        (waiting,) = stored(client, SCHEDULE_TOPIC)
        real_topic = waiting.property_map()["REAL_TOPIC"]
        assert (real_topic == TRANS_HALF_TOPIC) == held, release


@BOTH
async def test_what_counts_is_the_property_and_not_the_flag(release: str) -> None:
    client = a_bench(release).client()
    client.sent("Orders", sys_flag=4, properties="UNIQ_KEY\x01K")
    assert stored(client, TRANS_HALF_TOPIC) == []
    client.sent("Orders", properties="TRAN_MSG\x01TRUE\x02PGROUP\x01pg", sys_flag=12)
    (half,) = stored(client, TRANS_HALF_TOPIC)
    assert half.sys_flag == 0


# Invariant 41 ---------------------------------------------------------------------------


@BOTH
async def test_invariant_41_a_half_message_below_6_s_is_not_checked(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    await passes(bench, INTERVAL_S[release] - 5.999)
    a_half(client)
    await passes(bench, 8)  # a pass comes in which it is 5,999 ms old; it may wait for ops
    assert asked(client) == []


@BOTH
async def test_invariant_41_each_check_has_new_offsets_and_after_15_none_comes(
    release: str,
) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    half = a_half(client)
    await passes(bench, 20 * INTERVAL_S[release])
    checks = asked(client)
    offsets = [check.tran_state_table_offset for check in checks]
    assert offsets == list(range(1, 16))
    positions = [position_in(half)] + [check.commit_log_offset for check in checks]
    assert positions == sorted(set(positions))
    (given_up,) = stored(client, TRANS_CHECK_MAX_TIME_TOPIC)
    assert given_up.property_map()["TRANSACTION_CHECK_TIMES"] == "15"
    (fact,) = bench.facts(TransactionGivenUp)
    assert (fact.check_times, fact.offset) == (15, 15)
    assert bodies(client) == []


@BOTH
async def test_a_check_is_answered_at_the_place_that_it_names(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    a_half(client)
    await passes(bench, INTERVAL_S[release] + 1)
    (check,) = asked(client)
    (command,) = (c for c in client.heard if c.code == RequestCode.CHECK_TRANSACTION_STATE)
    (shown,) = decode_records(command.body)
    assert (shown.topic, shown.queue_id, shown.body) == ("Orders", 1, b"half")
    place = (check.tran_state_table_offset, check.commit_log_offset)
    assert (shown.queue_offset, shown.position) == place
    assert shown.property_map().items() >= {"PGROUP": "pg", "WAIT": "false"}.items()
    assert (check.msg_id, check.transaction_id) == ("K1", "K1")
    assert int((check.offset_msg_id or "")[-16:], 16) == check.commit_log_offset
    names = (TRANS_HALF_TOPIC, "broker-a") if release == LAST_5 else (None, None)
    assert (check.topic, check.bname) == names
    assert answer(client, check).code == 0
    await passes(bench, 5 * INTERVAL_S[release])
    assert len(asked(client)) == 1
    assert bodies(client) == [b"half"]
    (fact,) = bench.facts(TransactionEnded)
    assert (fact.offset, fact.by_check) == (1, True)


@BOTH
async def test_a_commit_that_races_with_a_check_is_stored_twice_as_at_upstream(
    release: str,
) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    half = a_half(client)
    await passes(bench, INTERVAL_S[release] + 1)
    (check,) = asked(client)
    assert end(client, half).code == 0
    assert answer(client, check).code == 0
    assert bodies(client) == [b"half", b"half"]


# Invariant 42 ---------------------------------------------------------------------------


@BOTH
async def test_invariant_42_the_check_goes_to_each_live_member_of_the_group_in_turn(
    release: str,
) -> None:
    bench = a_bench(release)
    sender, *others = (bench.client() for _ in range(3))
    other_group = bench.client()
    other_group.heartbeat("o", producer="other")
    sender.heartbeat("p0", producer="pg")
    a_half(sender)
    sender.close()
    for number, client in enumerate(others, 1):
        client.heartbeat(f"p{number}", producer="pg")
    await passes(bench, 4 * INTERVAL_S[release] + 1)
    assert [len(asked(client)) for client in others] == [2, 2]
    assert asked(sender) == asked(other_group) == []
    clients = [fact.client for fact in bench.facts(TransactionChecked)]
    assert clients == ["p2", "p1", "p2", "p1"]


@BOTH
async def test_invariant_42_a_check_without_a_member_counts_and_goes_to_nobody(
    release: str,
) -> None:
    bench = a_bench(release)
    client, stranger = bench.client(), bench.client()
    stranger.heartbeat("stranger", producer="other")
    a_half(client)
    await passes(bench, 2 * INTERVAL_S[release] + 1)
    assert asked(stranger) == asked(client) == []
    checked = [(fact.client, fact.check_times) for fact in bench.facts(TransactionChecked)]
    assert checked == [("", 1), ("", 2)]
    client.heartbeat("late", producer="pg")
    await passes(bench, INTERVAL_S[release])
    assert [check.tran_state_table_offset for check in asked(client)] == [3]
    assert asked(stranger) == []


# Invariant 43 ---------------------------------------------------------------------------


WRONG = {
    "another group": ({"producer_group": "other"}, "The producer group wrong"),
    "another offset": (
        {"tran_state_table_offset": 7},
        "The transaction state table offset wrong",
    ),
    "a position inside the record": (
        {"commit_log_offset": 9},
        "Find prepared transaction message failed",
    ),
    "a position behind the log": (
        {"commit_log_offset": 1 << 40},
        "Find prepared transaction message failed",
    ),
    "a negative position": (
        {"commit_log_offset": -1},
        "Find prepared transaction message failed",
    ),
    "the largest numbers": (
        {"commit_log_offset": 2**63 - 1, "tran_state_table_offset": 2**63 - 1},
        "Find prepared transaction message failed",
    ),
}


@BOTH
@pytest.mark.parametrize("outcome", [TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
@pytest.mark.parametrize("wrong", WRONG)
async def test_invariant_43_a_request_that_does_not_match_changes_nothing(
    release: str, outcome: int, wrong: str
) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    half = a_half(client)
    log = bench.broker.store.log
    before = log.end_position
    changes, remark = WRONG[wrong]
    answer = end(client, half, commit_or_rollback=outcome, **changes)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert log.end_position == before
    (fact,) = bench.facts(EndTransactionRefused)
    assert (fact.response_code, fact.remark, fact.uniq_key) == (1, remark, "K1")
    await passes(bench, INTERVAL_S[release] + 1)
    assert len(asked(client)) == 1, "the half message is open as before"


@BOTH
async def test_an_ordinary_message_is_not_ended_and_harms_no_half_message(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    a_half(client)
    plain = client.sent("Orders", properties="UNIQ_KEY\x01K2")
    assert end(client, plain).code == ResponseCode.SYSTEM_ERROR
    grouped = client.sent("Other", properties="PGROUP\x01pg\x02UNIQ_KEY\x01K3")
    assert grouped.queue_offset == 0  # as the half message's
    assert end(client, grouped).code == ResponseCode.SYSTEM_ERROR
    assert end(client, grouped, commit_or_rollback=TRANSACTION_ROLLBACK).code == 0
    await passes(bench, INTERVAL_S[release] + 1)
    assert len(asked(client)) == 1


@BOTH
@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", TRANS_OP_HALF_TOPIC, "Orders"])
async def test_no_transaction_stores_a_message_where_clients_may_not(
    release: str, topic: str
) -> None:
    bench = a_bench(release)
    client = bench.client()
    marks = {"PGROUP": "pg", "REAL_TOPIC": topic, "REAL_QID": "-1" if topic == "Orders" else "0"}
    forged = client.sent("Forged", properties=properties_text(marks, trailing=True))
    before = bench.broker.store.log.end_position
    refused = end(client, forged)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert bench.broker.store.log.end_position == before
    (fact,) = bench.facts(EndTransactionRefused)
    assert (fact.group, fact.topic, fact.response_code) == ("pg", topic, refused.code)


@BOTH
async def test_a_second_commit_and_one_after_a_rollback_store_one_more_as_at_upstream(
    release: str,
) -> None:
    client = a_bench(release).client()
    half = a_half(client)
    for outcome, count in ((8, 1), (8, 2), (12, 2), (8, 3)):
        assert end(client, half, commit_or_rollback=outcome).code == 0
        assert len(bodies(client)) == count


async def test_since_5_1_1_a_producer_that_is_later_than_its_own_immunity_is_refused() -> None:
    for release, code in (("5.1.0", 0), ("5.1.1", 604), (LAST_5, 604)):
        bench = a_bench(release)
        client = bench.client()
        half = a_half(client, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
        await trio.sleep(10)
        assert end(client, half).code == 0
        await trio.sleep(0.001)
        late = end(client, half)
        assert late.code == code, release
        assert late.remark == (NO_CODE if code else None)
        assert end(client, half, from_transaction_check=True).code == 0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 700),
            st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 3),
            st.sampled_from([0, 8, 12]),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_no_request_harms_another_transaction(
    requests: list[tuple[int, int, int, bool]],
) -> None:
    async def run() -> None:
        bench = a_bench(LAST_5)
        client, other = bench.client(), bench.client()
        half = a_half(client, PGROUP="mine")
        for position, offset, outcome, by_check in requests:
            header = EndTransactionRequest(offset, position, outcome, "pg", "K", by_check)
            other.ask(catalog.END_TRANSACTION, header)
        bench.no_bugs()
        assert end(client, half, producer_group="mine").code == 0
        assert bodies(client) == [b"half"]

    trio.run(run, clock=MockClock(autojump_threshold=0))


# Advancing time, and checking again -----------------------------------------------------


@BOTH
async def test_advancing_time_asks_once_and_a_late_answer_counts(release: str) -> None:
    bench = a_bench(release, reply_rules_allowed=True)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    a_half(client)
    body = encode_extension_body(AdvanceTime(ms=3_600_000))
    assert client.must(catalog.ADVANCE_TIME, None, body).code == 0
    (check,) = asked(client)
    assert answer(client, check).code == 0
    assert client.must(catalog.ADVANCE_TIME, None, body).code == 0
    assert len(asked(client)) == 1
    assert bodies(client) == [b"half"]


@BOTH
async def test_a_message_that_was_given_up_is_checked_again_on_request(release: str) -> None:
    bench = a_bench(release, transaction_checks_max=1)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    a_half(client)
    await passes(bench, 2 * INTERVAL_S[release] + 1)
    assert len(asked(client)) == 1
    (given_up,) = stored(client, TRANS_CHECK_MAX_TIME_TOPIC)
    host = "7F00000100002A9F"
    header = ResumeCheckHalfMessageRequest(msg_id=f"{host}{given_up.position:016X}")
    assert client.must(catalog.RESUME_CHECK_HALF_MESSAGE, header).code == 0
    await passes(bench, INTERVAL_S[release])
    assert len(asked(client)) == 2


@BOTH
@pytest.mark.parametrize("msg_id", [None, "", "zz", "00" * 16, "7F00000100002A9F" + "F" * 16])
async def test_a_message_that_is_not_there_is_not_checked_again(
    release: str, msg_id: str | None
) -> None:
    client = a_bench(release).client()
    header = ResumeCheckHalfMessageRequest(msg_id=msg_id)
    answer = client.must(catalog.RESUME_CHECK_HALF_MESSAGE, header)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == (
        "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
    )


@BOTH
async def test_an_ordinary_message_that_is_checked_again_reaches_nobody_and_ends(
    release: str,
) -> None:
    bench = a_bench(release, transaction_checks_max=2)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    plain = client.sent("Orders", properties="UNIQ_KEY\x01K2")
    header = ResumeCheckHalfMessageRequest(msg_id=plain.msg_id)
    assert client.must(catalog.RESUME_CHECK_HALF_MESSAGE, header).code == 0
    await passes(bench, 5 * INTERVAL_S[release])
    assert asked(client) == []
    assert len(bench.facts(TransactionGivenUp)) == 1


@BOTH
async def test_cleaning_unused_topics_keeps_half_messages(release: str) -> None:
    bench = a_bench(release)
    client = bench.client()
    half = a_half(client)
    assert client.must(catalog.CLEAN_UNUSED_TOPIC).code == 0
    assert bench.broker.store.max_offset(TRANS_HALF_TOPIC, 0) == 1
    assert end(client, half).code == 0
