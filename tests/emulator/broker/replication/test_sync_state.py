"""The sync-state set of a master: both sets while a change is under way, and who is to leave."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.replication.sync_state import SLAVES_KEPT_MAX, SyncState
from rocketmq_emulator.settings.releases import Release

NOW, LIMIT = 1_000_000, 15_000
NEW, OLD = Release(5, 3, 3), Release(5, 1, 3)


def state_of(*ids: int, **caught_up_ms: int) -> SyncState:
    """The controller's set, and when slaves were caught up: ``s2=…``."""
    state = SyncState()
    state.use(ids)
    for name, at_ms in caught_up_ms.items():
        state.caught_up(int(name[1:]), at_ms)
    return state


def test_while_a_change_is_under_way_members_of_both_sets_count() -> None:
    state = state_of(1, 2)
    assert state.union == {1, 2}
    assert state.want({1, 3})
    assert state.union == {1, 2, 3}
    assert state.count == 2
    assert state.want({1, 2, 3})
    assert state.count == 3
    state.use({1, 3})
    assert state.union == state.local == {1, 3}
    assert state.count == 2


def test_the_same_wish_is_no_news() -> None:
    state = state_of(1)
    assert state.want({1, 2})
    assert not state.want({1, 2})
    state.use({1})
    assert state.want({1, 2})


def test_a_smaller_set_that_was_asked_for_does_not_lower_the_count() -> None:
    state = state_of(1, 2, 3)
    state.want({1})
    assert state.count == 3
    assert state.union == {1, 2, 3}


@pytest.mark.parametrize(("behind_ms", "stays"), [(0, True), (15_000, True), (15_001, False)])
def test_a_slave_leaves_that_was_not_caught_up_for_longer_than_the_limit(
    behind_ms: int, stays: bool
) -> None:
    plan = state_of(1, 2, s2=NOW - behind_ms).shrunk(1, NOW, LIMIT, NEW)
    assert (2 in plan.wanted) is stays
    assert plan.reasons == ({} if stays else {2: f"it was not caught up for {behind_ms} ms"})


def test_a_slave_leaves_that_never_connected_and_the_master_stays() -> None:
    plan = state_of(1, 2, 3, s3=NOW).shrunk(1, NOW, LIMIT, NEW)
    assert plan.wanted == {1, 3}
    assert plan.reasons == {2: "it has not connected"}


def test_a_slave_is_caught_up_at_the_latest_time() -> None:
    state = state_of(1, 2, s2=NOW)
    state.caught_up(2, NOW - 20_000)
    assert state.shrunk(1, NOW, LIMIT, NEW).wanted == {1, 2}


@pytest.mark.parametrize(
    ("ids", "own_id", "fails"),
    [((1,), 1, False), ((1, 2), 1, True), ((1, 2), 2, False), ((1, 2, 3), 2, True)],
)
def test_before_5_1_4_the_check_fails_at_the_masters_own_id(
    ids: tuple[int, ...], own_id: int, fails: bool
) -> None:
    slaves = {f"s{each}": NOW for each in ids if each != own_id}
    state = state_of(*ids, **slaves)
    plan = state.shrunk(own_id, NOW, LIMIT, OLD)
    assert plan.fails is fails
    assert plan.wanted == set(ids)
    assert not state.shrunk(own_id, NOW, LIMIT, Release(5, 1, 4)).fails


def test_before_5_1_4_a_slow_slave_leaves_if_the_masters_id_comes_last() -> None:
    state = state_of(1, 2, s1=NOW - 20_000)
    assert state.shrunk(2, NOW, LIMIT, OLD).wanted == {2}


def test_ids_of_strangers_are_kept_up_to_a_limit() -> None:
    state = state_of(1)
    for number in range(SLAVES_KEPT_MAX + 10):
        state.caught_up(number, NOW)
    assert len(state._caught_up_ms) == SLAVES_KEPT_MAX
