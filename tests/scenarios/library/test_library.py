"""The verdict of each scenario of the library, with and without its fix, from a fixed seed."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from rocketmq_emulator.scenarios.plan.result import RunOrder
from tests.support.real_time_runs import named as cased
from tests.support.real_time_runs import recorded

SEED = 1
COMES_BACK = "a_queue_comes_back_before_it_is_unlocked"
THREADS = "a_lite_pull_member_has_more_queues_than_threads"
BEGINS = "a_new_group_begins_behind_the_first_message"
ADDRESS = "a_slave_is_given_the_address_of_its_master"
DIES, MORE = "acknowledged_messages_die_with_their_master", "a_slave_has_more_than_its_master"
OPEN, TWICE = "open_transactions_are_skipped", "messages_come_twice_through_the_bridge"
HOLDS = "a_slave_holds_pulls_of_its_master_that_is_back"
GROWS = "a_topic_grows_while_a_name_server_lacks_a_broker"
NOT_COPIED = "an_election_loses_what_was_not_copied"
OUTSIDE = "a_slave_outside_the_set_is_elected"
STRANDED = "a_quick_restart_strands_the_slave"
AWAY = "the_controller_is_away_when_a_master_dies"

CASES: list[
    tuple[str, dict[str, bool | int | float | str], str, str]
] = [  # scenario, parameters, verdict, a part of the reason
    ("identity:three_containers_have_one_client_id", {}, "failed", "backlog == 0"),
    ("identity:three_containers_have_one_client_id", {"distinct": True}, "passed", ""),
    ("identity:members_subscribe_different_tags", {}, "failed", "filtered == 0"),
    ("identity:members_subscribe_different_tags", {"consistent": True}, "passed", ""),
    ("identity:members_subscribe_by_tag_and_by_sql", {}, "failed", "filtered == 0"),
    ("identity:members_subscribe_by_tag_and_by_sql", {"consistent": True}, "passed", ""),
    ("read_only", {}, "failed", "idle_members.billing == 0 was expected, it is 1"),
    ("read_only", {"strategy": "by_circle", "leaves": True}, "passed", ""),
    ("read_only", {"strategy": "averagely_auto(4.9.6)"}, "passed", ""),
    ("group_strategies:a_group_mixes_two_strategies", {}, "failed", "starved_queues"),
    ("group_strategies:a_group_mixes_two_strategies", {"auto": True}, "passed", ""),
    ("group_strategies:a_group_is_upgraded_while_it_works", {}, "passed", ""),
    (
        "group_strategies:a_group_is_upgraded_while_it_works",
        {"auto": False},
        "failed",
        "unowned_s",
    ),
    ("group_strategies:a_group_is_upgraded_while_it_works", {"release": "4.9.7"}, "failed", "no_"),
    ("group_strategies:only_chosen_machines_consume", {}, "failed", "starved_queues"),
    ("group_strategies:only_chosen_machines_consume", {"strategy": "pinned"}, "passed", ""),
    ("ownership:more_members_than_queues", {}, "passed", ""),
    ("ownership:ten_topics_tilt", {}, "passed", ""),
    ("ownership:a_member_dies", {}, "passed", ""),
    ("ownership:a_topic_gets_more_queues", {}, "passed", ""),
    ("orderly_locks:orderly_queues_are_taken_over", {"release": "4.9.4"}, "failed", "gap_s <= 5"),
    ("orderly_locks:orderly_queues_are_taken_over", {}, "passed", ""),
    (
        "orderly_locks:an_orderly_listener_suspends_for_minutes",
        {},
        "failed",
        "expired_queues == 0",
    ),
    ("orderly_locks:an_orderly_listener_suspends_for_minutes", {"forgets": False}, "passed", ""),
    ("orderly_locks:an_orderly_member_is_killed", {}, "passed", ""),
    ("orderly_locks:an_orderly_member_is_killed", {"unlocks": True}, "passed", ""),
    ("orderly_locks:an_orderly_group_never_begins", {}, "failed", "backlog == 0"),
    ("orderly_locks:an_orderly_group_never_begins", {"held_only": False}, "passed", ""),
    ("found_by_weather:a_broker_forgets_its_locks", {}, "failed", "forgotten_locks.billing == 0"),
    ("found_by_weather:a_broker_forgets_its_locks", {"joins": False}, "passed", ""),
    ("found_by_weather:a_broker_forgets_its_locks", {"release": "5.2.0"}, "passed", ""),
    (f"found_by_weather:{GROWS}", {}, "failed", "overlap_s <= 21"),
    (f"found_by_weather:{GROWS}", {"grows": False}, "passed", ""),
    (f"found_by_weather:{GROWS}", {"release": "5.3.3"}, "passed", ""),
    ("found_by_weather:a_broadcasting_member_forgets_a_queue", {}, "failed", "excused.news == 0"),
    ("found_by_weather:a_broadcasting_member_forgets_a_queue", {"release": "5.2.0"}, "passed", ""),
    (f"found_by_weather:{BEGINS}", {}, "failed", "excused.billing == 0 was expected, it is 11"),
    (f"found_by_weather:{BEGINS}", {"release": "5.3.3"}, "failed", "excused.billing == 0"),
    (f"found_by_weather:{BEGINS}", {"release": "5.0.0"}, "passed", ""),
    (f"found_by_weather:{COMES_BACK}", {}, "failed", "late_unlocks.billing == 0"),
    (f"found_by_weather:{COMES_BACK}", {"release": "5.2.0"}, "passed", ""),
    (f"found_by_weather:{THREADS}", {}, "failed", "backlog.billing == 0"),
    (f"found_by_weather:{THREADS}", {"release": "4.9.7"}, "failed", "backlog.billing == 0"),
    (f"found_by_weather:{THREADS}", {"hold_ms": 1_000}, "passed", ""),
    ("producers:a_broker_hangs", {}, "failed", "failed_sends == 0"),
    ("producers:a_broker_hangs", {"release": "5.3.3", "attempt_ms": 1_000}, "passed", ""),
    ("producer_choice:a_broker_was_busy_once", {}, "failed", "send_unfairness"),
    ("producer_choice:a_broker_was_busy_once", {"detector": True}, "passed", ""),
    ("producer_choice:a_broker_was_busy_once", {"release": "5.2.0"}, "passed", ""),
    ("producer_choice:all_brokers_were_slow_once", {}, "failed", "send_unfairness"),
    ("producer_choice:all_brokers_were_slow_once", {"release": "4.9.8"}, "passed", ""),
    ("producer_choice:one_queue_gets_the_share_of_a_broker", {}, "failed", "send_crowding <= 2"),
    ("producer_choice:one_queue_gets_the_share_of_a_broker", {"release": "5.1.4"}, "passed", ""),
    ("producer_choice:a_retry_goes_to_the_broker_that_failed", {}, "failed", "failed_sends == 0"),
    ("producer_choice:a_retry_goes_to_the_broker_that_failed", {"release": "4.8.0"}, "passed", ""),
    ("producer_choice:a_retry_stays_at_a_slow_disk", {}, "failed", "unsafe_sends == 0"),
    ("producer_choice:a_retry_stays_at_a_slow_disk", {"release": "5.1.1"}, "passed", ""),
    ("pulling:a_queue_goes_away_and_comes_back", {}, "failed", "lost == 0"),
    ("pulling:a_queue_goes_away_and_comes_back", {"release": "4.9.0"}, "passed", ""),
    ("pulling:a_lite_pull_consumer_dies", {}, "failed", "lost == 0"),
    ("pulling:a_lite_pull_consumer_dies", {"counts_pulled": False}, "passed", ""),
    ("pulling:an_offset_cannot_be_learned", {}, "failed", "duplicates <= 60"),
    ("pulling:an_offset_cannot_be_learned", {"release": "5.0.0"}, "passed", ""),
    ("name_servers:a_new_group_is_counted_twice", {}, "failed", "unowned_s <= 5"),
    (
        "name_servers:a_new_group_is_counted_twice",
        {"release": "5.1.4"},
        "failed",
        "unowned_s <= 5",
    ),
    ("name_servers:a_new_group_is_counted_twice", {"release": "5.1.3"}, "passed", ""),
    ("name_servers:a_new_group_is_counted_twice", {"waits": False}, "passed", ""),
    ("name_servers:name_servers_disagree", {}, "failed", "overlap_s <= 1"),
    ("name_servers:name_servers_disagree", {"both": True}, "passed", ""),
    ("penalties:a_broker_is_slow_for_forty_seconds", {}, "failed", "avoided_after_s <= 10"),
    ("penalties:a_broker_is_slow_for_forty_seconds", {"table": "5.1.4"}, "failed", "p99 <= 500"),
    ("penalties:a_broker_flaps", {}, "failed", "broker_share_well >= 0.25"),
    ("penalties:a_broker_flaps", {"avoids": "5.1.4"}, "passed", ""),
    ("ownership:ten_topics_tilt", {}, "passed", ""),
    ("ownership:a_member_is_cut_off_from_one_broker", {}, "passed", ""),
    ("rebalancing:queues_move_for_nothing", {}, "failed", "needless_moves == 0 was expected, it"),
    ("rebalancing:queues_move_for_nothing", {"strategy": "by_circle"}, "failed", "it is 12"),
    ("rebalancing:queues_move_for_nothing", {"strategy": "consistent_hash"}, "passed", ""),
    ("rebalancing:rooms_without_members", {}, "failed", "queueless_members == 0"),
    ("rebalancing:rooms_without_members", {"together": True}, "passed", ""),
    ("failing_clusters:passes_come_late", {}, "failed", "rebalance_gap_s <= 90"),
    ("failing_clusters:passes_come_late", {"topics": 3}, "passed", ""),
    ("failing_clusters:routes_wait_for_offsets", {}, "failed", "unowned_s <= 51"),
    ("failing_clusters:routes_wait_for_offsets", {"in_series": False}, "passed", ""),
    ("failing_clusters:a_member_is_without_network_for_two_minutes", {}, "passed", ""),
    ("offsets:an_offset_is_asked_for_in_vain", {"release": "4.9.0"}, "failed", "duplicates == 0"),
    ("offsets:an_offset_is_asked_for_in_vain", {}, "failed", "duplicates == 0"),
    ("offsets:an_offset_is_asked_for_in_vain", {"release": "4.9.8"}, "failed", "duplicates == 0"),
    ("offsets:an_offset_is_asked_for_in_vain", {"release": "5.0.0"}, "passed", ""),
    ("offsets:a_broker_dies_between_lock_and_first_pull", {}, "failed", "duplicates <= 64"),
    (
        "offsets:a_broker_dies_between_lock_and_first_pull",
        {"release": "4.9.8"},
        "failed",
        "duplicates <= 64",
    ),
    ("offsets:a_broker_dies_between_lock_and_first_pull", {"release": "5.0.0"}, "passed", ""),
    ("offsets:a_broadcasting_member_asks_beyond_the_log", {}, "failed", "delivery_gap_s <= 60"),
    ("offsets:a_broadcasting_member_asks_beyond_the_log", {"release": "4.9.8"}, "passed", ""),
    ("offsets:a_retry_doubles_at_a_restart", {}, "failed", "duplicates == 0 was expected"),
    ("offsets:a_retry_doubles_at_a_restart", {"interrupts": False}, "passed", ""),
    ("subscriptions:a_broker_does_not_filter_by_sql", {}, "failed", "backlog == 0"),
    ("subscriptions:a_broker_does_not_filter_by_sql", {"enabled": True}, "passed", ""),
    ("requests:replies_are_lost_after_a_reconnect", {}, "failed", "unanswered_s <= 5"),
    (
        "requests:replies_are_lost_after_a_reconnect",
        {"release": "5.1.4"},
        "failed",
        "unanswered_s <= 5",
    ),
    ("requests:replies_are_lost_after_a_reconnect", {"release": "5.2.0"}, "passed", ""),
    ("broker_dies", {}, "passed", ""),
    ("transactions:a_slow_local_transaction_is_committed_twice", {}, "failed", "committed_again"),
    ("transactions:a_slow_local_transaction_is_committed_twice", {"decides_s": 2}, "passed", ""),
    ("transactions:two_applications_share_a_producer_group", {}, "failed", "rolled_back == 0"),
    ("transactions:two_applications_share_a_producer_group", {"shared": False}, "passed", ""),
    (
        "transactions:a_producer_dies_before_it_ends_its_transaction",
        {},
        "failed",
        "open_transactions == 0 was expected, it is 10",
    ),
    (
        "transactions:a_producer_dies_before_it_ends_its_transaction",
        {"producers": 2},
        "passed",
        "",
    ),
    ("transactions:a_long_immunity_uses_up_the_checks", {}, "failed", "given_up == 0"),
    ("transactions:a_long_immunity_uses_up_the_checks", {"immunity_s": 90}, "passed", ""),
    ("transactions:a_restarted_producer_is_not_asked", {}, "failed", "unasked_checks == 0"),
    ("transactions:a_restarted_producer_is_not_asked", {"sends_on": True}, "passed", ""),
    ("power:a_power_loss_hides_new_messages", {}, "failed", "hidden == 0"),
    ("power:a_power_loss_hides_new_messages", {"flush": "SYNC_FLUSH"}, "passed", ""),
    ("power:a_retry_is_lost_with_the_power", {}, "failed", "lost_with_power == 0"),
    ("power:a_retry_is_lost_with_the_power", {"release": "5.3.3"}, "failed", "lost_with_power"),
    ("power:a_retry_is_lost_with_the_power", {"flush_ms": 5}, "passed", ""),
    (f"slaves:{DIES}", {}, "failed", "lost_with_masters == 0 was expected, it is 24"),
    (f"slaves:{DIES}", {"waits": True}, "passed", ""),
    (f"slaves:{MORE}", {}, "failed", "only_at_slaves == 0"),
    (f"slaves:{MORE}", {"release": "4.9.7"}, "failed", "excused_other_logs == 0"),
    (f"slaves:{MORE}", {"flushed": True}, "passed", ""),
    ("slaves:a_master_hangs_and_its_slave_stays", {}, "failed", "silent_masters_left >= 1"),
    ("slaves:a_master_hangs_and_its_slave_stays", {"release": "5.3.3"}, "passed", ""),
    (f"controllers:{NOT_COPIED}", {}, "failed", "lost_with_masters == 0 was expected, it is 20"),
    (f"controllers:{NOT_COPIED}", {"all_ack": True}, "passed", ""),
    ("controllers:a_replaced_master_goes_on", {}, "failed", "acked_by_replaced == 0"),
    ("controllers:a_replaced_master_goes_on", {"apart_s": 5.0}, "passed", ""),
    ("controllers:a_topic_is_lost_with_its_master", {}, "failed", "failed_sends == 0"),
    ("controllers:a_topic_is_lost_with_its_master", {"after_s": 16.0}, "passed", ""),
    (f"controllers:{OUTSIDE}", {}, "passed", ""),
    (f"controllers:{OUTSIDE}", {"unclean": True}, "failed", "lost_with_masters == 0"),
    (f"controllers:{AWAY}", {}, "failed", "without_writes_s <= 32"),
    (f"controllers:{AWAY}", {"controllers": 3}, "passed", ""),
    ("controllers:a_slave_misses_an_epoch", {}, "failed", "lost_with_masters <= 1"),
    ("controllers:a_slave_misses_an_epoch", {"restarted": True}, "passed", ""),
    (f"controllers:{STRANDED}", {}, "failed", "failed_elections == 0"),
    (f"controllers:{STRANDED}", {"noticed": True}, "passed", ""),
    ("controllers:a_hung_master_is_not_noticed", {}, "failed", "write_pause_s <= 45"),
    ("controllers:a_hung_master_is_not_noticed", {"dies": True}, "passed", ""),
    ("controllers:a_hung_master_is_not_noticed", {"kind": "DLedger"}, "passed", ""),
    ("controllers:a_hung_master_is_replaced", {}, "passed", ""),
    ("controllers:a_hung_slave_leaves_the_set", {}, "passed", ""),
    ("slaves:consumers_go_on_at_a_slave", {}, "passed", ""),
    ("slaves:consumers_go_on_at_a_slave", {"release": "5.3.3"}, "failed", "read_from_slaves"),
    ("slaves:consumers_go_on_at_a_slave", {"release": "5.3.3", "readable": True}, "passed", ""),
    ("slaves:readers_are_ahead_of_a_slave", {}, "failed", "duplicates <= 150 was expected"),
    ("slaves:readers_are_ahead_of_a_slave", {"release": "4.9.7"}, "passed", ""),
    (f"acting_masters:{OPEN}", {}, "failed", "halves_skipped == 0 was expected, it is 5"),
    (f"acting_masters:{OPEN}", {"escape": True}, "passed", ""),
    ("acting_masters:timers_are_given_up", {}, "failed", "timers_given_up == 0"),
    ("acting_masters:timers_are_given_up", {"another": True}, "passed", ""),
    (f"acting_masters:{TWICE}", {}, "failed", "escaped_again <= 10 was expected, it is 49"),
    (f"acting_masters:{TWICE}", {"just_copied": True}, "passed", ""),
    ("acting_masters:an_acting_master_has_no_topics_yet", {}, "failed", "read_from_slaves >= 1"),
    ("acting_masters:an_acting_master_has_no_topics_yet", {"settled": True}, "passed", ""),
    ("acting_masters:an_acting_master_is_not_read", {}, "failed", "read_from_slaves >= 1"),
    ("acting_masters:an_acting_master_is_not_read", {"readable": True}, "passed", ""),
    ("acting_masters:a_master_takes_old_offsets_back", {}, "failed", "duplicates <= 10"),
    ("acting_masters:a_master_takes_old_offsets_back", {"acting": False}, "passed", ""),
    (f"slaves:{HOLDS}", {}, "failed", "delivery_gap_s <= 5"),
    (f"slaves:{HOLDS}", {"release": "4.9.7"}, "failed", "delivery_gap_s <= 5"),
    (f"slaves:{HOLDS}", {"apart": False}, "passed", ""),
    ("slaves:a_group_begins_again_at_a_slave", {}, "passed", ""),
    ("masters:a_master_dies", {}, "failed", "write_pause_s <= 45 was expected, it is 60.1"),
    ("masters:a_master_dies", {"fault": "power_off"}, "failed", "lost_with_power == 0"),
    ("masters:a_master_dies", {"mode": "controller"}, "passed", ""),
    (
        "masters:a_master_dies",
        {"mode": "controller_unclean", "behind_s": 30},
        "failed",
        "lost_with_masters == 0 was expected, it is 600",
    ),
    ("slave_copies:a_slave_comes_back_too_late", {}, "failed", "lag_at_death_bytes <= 20000"),
    (
        "slave_copies:a_slave_comes_back_too_late",
        {"release": "5.3.3"},
        "failed",
        "lag_at_death_bytes <= 20000",
    ),
    ("slave_copies:a_slave_comes_back_too_late", {"retained": True}, "passed", ""),
    ("slave_copies:a_new_slave_has_the_last_file_only", {}, "failed", "lost == 0"),
    ("slave_copies:a_new_slave_has_the_last_file_only", {"late": False}, "passed", ""),
    (f"slave_copies:{ADDRESS}", {}, "failed", "failed_sends == 0"),
    (f"slave_copies:{ADDRESS}", {"release": "4.9.7"}, "passed", ""),
    (f"slave_copies:{ADDRESS}", {"given": False}, "passed", ""),
    ("slave_copies:a_sync_master_waits_for_nobody", {}, "failed", "lost_with_masters == 0"),
    ("slave_copies:a_sync_master_waits_for_nobody", {"replicas": 2}, "passed", ""),
    ("slave_copies:a_sync_master_waits_for_nobody", {"release": "4.9.7"}, "passed", ""),
    ("slave_copies:an_old_report_counts_as_a_copy", {}, "failed", "lost_with_masters == 0 was"),
    ("slave_copies:an_old_report_counts_as_a_copy", {"release": "5.3.3"}, "passed", ""),
    ("slave_tables:offsets_of_a_slave_are_replaced", {}, "failed", "duplicates <= 10"),
    (
        "slave_tables:offsets_of_a_slave_are_replaced",
        {"release": "5.3.3"},
        "failed",
        "duplicates <= 10",
    ),
    ("slave_tables:offsets_of_a_slave_are_replaced", {"stays": True}, "passed", ""),
    (
        "slave_tables:offsets_of_a_slave_are_replaced",
        {"release": "5.3.3", "acting": True},
        "passed",
        "",
    ),
    (
        "slave_tables:offsets_of_a_slave_are_replaced",
        {"release": "5.3.3", "acting": True, "busy": True},
        "failed",
        "duplicates <= 10",
    ),
    ("slave_tables:a_topic_with_attributes_is_not_copied", {}, "failed", "read_from_slaves >= 1"),
    ("slave_tables:a_topic_with_attributes_is_not_copied", {"typed": False}, "passed", ""),
    ("slave_tables:a_topic_with_attributes_is_not_copied", {"release": "5.3.1"}, "passed", ""),
]


def named(case) -> str:
    name, parameters, verdict, _ = case
    return f"{name}-{'-'.join(map(str, parameters.values()))}-{verdict}"


@pytest.fixture(scope="module")
def rows(run_pool):
    """A row for every case; two run at a time."""
    orders = [RunOrder(plan=load(n.rpartition(":")[2], p), seed=SEED) for n, p, _, _ in CASES]
    found = {id(order): row for order, row in run_pool.finished(orders, jobs=2)}
    return [found[id(order)] for order in orders]


@pytest.mark.parametrize("at", range(len(CASES)), ids=[named(case) for case in CASES])
def test_a_scenario_of_the_library_ends_as_it_teaches(rows, at) -> None:
    _, _, verdict, why = CASES[at]
    row = rows[at]
    assert row.verdict == verdict, row.reason
    assert why in row.reason


@pytest.mark.parametrize("record", recorded(), ids=lambda record: cased(record.case))
def test_virtual_time_comes_to_what_was_recorded_of_processes(rows, record) -> None:
    cases = [(name.rpartition(":")[2], parameters) for name, parameters, *_ in CASES]
    row = rows[cases.index(record.case)]
    assert row.verdict == record.verdict, (row.reason, record)
    assert tuple(one.expected for one in row.unmet) == record.unmet


def test_a_lock_that_is_refused_at_the_start_is_not_judged_as_a_takeover(run_pool) -> None:
    plan = load("orderly_queues_are_taken_over")
    race = msgspec.structs.replace(plan.consumers[0], every_ms=3)  # the second is refused a lock
    race_plan = msgspec.structs.replace(plan, consumers=[race])
    early = msgspec.structs.replace(plan.load[0], from_ms=0)
    early_plan = msgspec.structs.replace(race_plan, load=[early])
    orders = [RunOrder(plan=each, seed=SEED) for each in (early_plan, race_plan)]
    found = {id(o): row.metrics for o, row in run_pool.finished(orders, jobs=2)}
    startup_s, gap_s = (f"{name}delivery_gap_s" for name in ("startup_", ""))
    assert found[id(orders[0])][startup_s] >= 19, "messages at the start wait for the next pass"
    assert max(metrics[gap_s] for metrics in found.values()) <= 1


def test_every_scenario_of_the_library_says_what_it_shows_and_teaches() -> None:
    for found in in_folder(LIBRARY):
        plan = load(found.name)
        assert plan.title, found.name
        assert plan.teaches, found.name
