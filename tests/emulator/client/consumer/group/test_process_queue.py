from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.client.consumer.group.process_queue import NOTHING_CACHED, ProcessQueue


class AMessage(NamedTuple):
    """The fields of a message that a process queue reads."""

    queue_offset: int
    body: bytes = b"body"


def messages(*offsets: int) -> list[AMessage]:
    return [AMessage(offset) for offset in offsets]


def a_queue(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue(now_ms=0)
    queue.put(messages(*offsets))
    return queue


def offsets(found: list[AMessage]) -> list[int]:
    return [message.queue_offset for message in found]


def test_client_invariant_43_the_offset_to_commit_is_the_smallest_unfinished_one() -> None:
    queue = a_queue(10, 11, 12)
    assert queue.remove(messages(11, 12), now_ms=1) == 10
    assert queue.remove(messages(10), now_ms=2) == 13
    assert queue.last_consume_ms == 2


def test_nothing_can_be_committed_from_an_empty_queue() -> None:
    assert ProcessQueue(now_ms=0).remove(messages(1), now_ms=0) == NOTHING_CACHED
    assert ProcessQueue(now_ms=0).commit() == NOTHING_CACHED


def test_an_offset_counts_once_however_often_it_is_put() -> None:
    queue = a_queue(10, 11)
    queue.put(messages(11, 12))
    assert (queue.count, queue.bytes_cached, queue.offset_highest) == (3, 12, 12)


def test_a_message_put_late_with_a_lower_offset_is_the_first() -> None:
    queue = a_queue(10, 20)
    queue.put(messages(15, 5))
    assert queue.span == 15
    assert offsets(queue.take(4, now_ms=0)) == [5, 10, 15, 20]


def test_the_span_excludes_finished_ends() -> None:
    queue = a_queue(10, 11, 500, 2_600)
    assert queue.span == 2_590
    queue.remove(messages(2_600), now_ms=0)
    assert queue.span == 490
    queue.remove(messages(10), now_ms=0)
    assert queue.span == 489


def test_only_the_first_put_wakes_an_orderly_listener() -> None:
    queue = ProcessQueue(now_ms=0)
    assert queue.put([]) is False
    assert queue.put(messages(1)) is True
    assert queue.put(messages(2)) is False  # the listener runs already
    queue.take(2, now_ms=0)
    assert queue.put(messages(3)) is False
    queue.take(1, now_ms=0)
    assert queue.take(1, now_ms=0) == []  # now the listener waits
    assert queue.put(messages(4)) is True


def test_taken_messages_count_until_they_are_committed() -> None:
    queue = a_queue(1, 2, 3)
    assert offsets(queue.take(2, now_ms=5)) == [1, 2]
    assert (queue.count, queue.bytes_cached, queue.is_waiting) == (3, 12, True)
    assert queue.commit() == 3
    assert (queue.count, queue.bytes_cached) == (1, 4)
    assert queue.last_consume_ms == 5


def test_what_goes_back_is_taken_again_first_and_in_order() -> None:
    queue = a_queue(1, 2, 3, 4)
    queue.consume_again(queue.take(3, now_ms=0))
    assert offsets(queue.take(4, now_ms=0)) == [1, 2, 3, 4]
    queue.rollback()
    assert offsets(queue.take(1, now_ms=0)) == [1]
    assert queue.count == 4


def test_a_queue_not_pulled_for_two_minutes_is_pull_expired() -> None:
    queue = ProcessQueue(now_ms=1_000)
    assert not queue.is_pull_expired(now_ms=121_000)
    assert queue.is_pull_expired(now_ms=121_001)


def test_client_invariant_51_a_lock_is_trusted_for_thirty_seconds() -> None:
    queue = ProcessQueue(now_ms=0, locked=True)
    assert queue.holds_lock(now_ms=30_000)
    assert not queue.holds_lock(now_ms=30_001)
    queue.locked = False
    assert not queue.holds_lock(now_ms=0)


def test_a_cleared_queue_is_as_new() -> None:
    queue = a_queue(1, 2)
    queue.take(1, now_ms=0)
    queue.clear()
    assert (queue.count, queue.bytes_cached, queue.span, queue.first()) == (0, 0, 0, None)


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "take", "commit", "rollback"]),
        st.lists(st.integers(0, 30), max_size=5),
    ),
    max_size=40,
)


@given(steps)
def test_a_process_queue_behaves_like_two_sorted_maps(todo: list[tuple[str, list[int]]]) -> None:
    queue = ProcessQueue(now_ms=0)
    held: set[int] = set()
    taken: set[int] = set()
    for what, numbers in todo:
        if what == "put":
            new = [n for n in numbers if n not in taken]
            queue.put(messages(*new))
            held |= set(new)
        elif what == "remove":
            got = queue.remove(messages(*numbers), now_ms=0)
            rest = held - set(numbers)
            empty = queue.offset_highest + 1
            assert got == (NOTHING_CACHED if not held else min(rest) if rest else empty)
            held = rest
        elif what == "take":
            wanted = sorted(held)[: len(numbers)]
            assert offsets(queue.take(len(numbers), now_ms=0)) == wanted
            held -= set(wanted)
            taken |= set(wanted)
        elif what == "commit":
            assert queue.commit() == (max(taken) + 1 if taken else NOTHING_CACHED)
            taken = set()
        else:
            queue.rollback()
            held, taken = held | taken, set()
        assert queue.count == len(held) + len(taken)
        assert queue.bytes_cached == 4 * queue.count
        assert queue.span == (max(held) - min(held) if held else 0)
        first = queue.first()
        assert (first.queue_offset if first else None) == (min(held) if held else None)
