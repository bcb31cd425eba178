"""The table of docs/errata.md: statements of articles about RocketMQ, and the code's behaviour.

The articles are five popular texts on load balancing: an overview (000), two on the client's
source (001, 002), one on rebalancing (003), and the text of apache/rocketmq#3465 (004).
"""

from __future__ import annotations

from typing import NamedTuple

from docs.generate.sections import DOCS, write_section

PAGE = DOCS / "errata.md"


class Erratum(NamedTuple):
    """``shown_by``: names of tests that check the behaviour in ``runs``."""

    text: str
    says: str
    runs: str
    shown_by: tuple[str, ...]


ERRATA = (
    Erratum(
        "000, 001",
        "a broker is avoided for 3 s after more than 550 ms, for 60 s after more than 1,000 ms",
        "from 550 ms on 30 s up to 5.1.3, where 60 s from 1,000 ms on is right; since 5.1.4 2 s",
        (
            "test_the_table_is_upstreams",
            "test_articles_about_latency_faults_describe_a_table_that_no_release_has",
            "test_the_page_shows_what_each_table_of_latency_faults_comes_to",
        ),
    ),
    Erratum(
        "000",
        "heartbeats go to every broker of the cluster",
        "to the brokers of known routes; without consumers to masters only",
        (
            "test_client_invariant_03_slaves_get_heartbeats_of_consumers_only",
            "test_client_invariant_04_a_broker_in_no_route_gets_no_more_heartbeats",
        ),
    ),
    Erratum(
        "000",
        "a consumer that releases a queue tries every second to get its lock",
        "one try per pass, which waits up to 1 s (0.5 s since 5.2.0), by orderly consumers only",
        (
            "test_client_invariant_52_up_to_5_1_a_busy_orderly_queue_is_kept_for_ever",
            "test_client_invariant_52_since_5_2_it_is_released_20_seconds_after_its_lock",
        ),
    ),
    Erratum(
        "000",
        "after a pull without messages the next one is delayed",
        "it follows immediately; the broker holds it, up to 15 s",
        ("test_client_invariant_40_an_empty_queue_costs_one_pull_in_15_seconds",),
    ),
    Erratum(
        "001",
        "with latency faults on, a queue is taken when its broker is the one that failed last",
        "true up to 4.7.1, and it kept a retry at the failed broker; removed in 4.8.0",
        (
            "test_a_retry_up_to_4_7_sticks_to_the_broker_that_failed",
            "test_from_4_8_to_5_1_0_a_latency_aware_retry_may_stay_or_go",
        ),
    ),
    Erratum(
        "001",
        "the round-robin index is read once per call, and the call then increments its own copy",
        "up to 4.7.1, with latency faults up to 5.1.3; since then each checked queue is a step",
        (
            "test_since_4_8_each_queue_that_a_retry_passes_over_is_a_step",
            "test_with_latency_faults_each_queue_passed_over_is_a_step_since_5_1_4",
        ),
    ),
    Erratum(
        "001",
        "when all brokers are avoided, one is picked after a shuffle, and the queue is changed",
        "no shuffle from 4.9.4 to 5.1.3, and a fresh queue in 4.9.8; since 5.1.4 the next queue "
        "is taken (the picking method shuffles again, but no producer calls it)",
        (
            "test_up_to_4_9_3_the_worst_case_pick_breaks_ties_by_chance",
            "test_the_worst_case_pick_changes_the_shared_list_in_some_releases",
            "test_since_5_1_4_the_next_that_can_be_reached_is_taken_when_all_are_avoided",
        ),
    ),
    Erratum(
        "001",
        "subscriptions are kept in the broker's topicConfigTable",
        "in its table of consumer groups; topics have no data about subscribers",
        ("test_a_heartbeat_changes_no_topic_but_the_group_s_retry_topic",),
    ),
    Erratum(
        "001, 002",
        "the listing of averagely wraps its index around the number of queues",
        "the index never gets that far: the modulo changes nothing, and was removed in 5.3.0",
        ("test_the_modulo_in_listings_of_averagely_never_acts",),
    ),
    Erratum(
        "001",
        "every answer sets a new end of a broker's isolation",
        "up to 5.1.3; since 5.1.4 an isolation is only extended",
        (
            "test_client_invariant_18_a_slow_answer_costs_30_seconds_until_a_fast_one",
            "test_client_invariant_19_a_fast_answer_never_shortens_an_isolation",
        ),
    ),
    Erratum(
        "002",
        "the route poll covers the topics that consumers subscribe",
        "also the topics that producers have sent to",
        ("test_a_topic_that_was_asked_for_in_vain_is_polled_from_then_on",),
    ),
    Erratum(
        "002",
        "members on other machines return an empty list, and chosen machines consume",
        "they consume their own shares only; the shares of the others are not consumed",
        (
            "test_what_a_refusing_member_would_have_got_starves",
            "test_pinned_members_share_everything_and_each_queue_once",
        ),
    ),
    Erratum(
        "003",
        "averagely, 4 queues, 2 consumers: queues 1 and 3 to the first, 2 and 4 to the second",
        "that is by circle; averagely gives 1 and 2, 3 and 4",
        ("test_the_article_s_example_of_averagely_is_by_circle_s_result",),
    ),
    Erratum(
        "003",
        "there are five strategies",
        "six: MACHINE_ROOM_NEARBY is missing in the list, but used in the article's example",
        ("test_rocketmq_has_six_strategies",),
    ),
    Erratum(
        "003",
        "releasing a queue always succeeds",
        "for concurrent and broadcasting consumers; an orderly consumer may keep a busy queue",
        (
            "test_a_broadcasting_consumer_gives_a_queue_up_at_once_and_unlocks_nothing",
            "test_client_invariant_52_up_to_5_1_a_busy_orderly_queue_is_kept_for_ever",
        ),
    ),
    Erratum(
        "003",
        "a rebalance is caused by a member that joins or leaves, and by a pull that timed out",
        "also by the timer (20 s), new subscriptions, refused locks, repaired offsets, reconnects",
        (
            "test_client_invariant_25_undisturbed_a_pass_every_20_seconds",
            "test_the_notice_after_our_own_new_topic_has_cause_subscription_changed",
            "test_since_5_0_a_refused_lock_causes_passes_half_a_second_later",
            "test_since_5_2_an_offset_that_the_broker_lacks_is_repaired_at_once",
            "test_from_5_2_0_a_new_connection_sends_a_heartbeat_and_wakes_the_rebalance",
        ),
    ),
    Erratum(
        "003",
        "a new queue is pulled immediately",
        "up to 4.9; half a second later since 5.0.0",
        ("test_client_invariant_37_the_first_pull_of_a_new_queue",),
    ),
    Erratum(
        "004",
        "AveragelyAuto chooses between averagely and by circle",
        "it was proposed and never merged; here it is an extension (docs/strategies.md)",
        (
            "test_averagely_auto_is_no_strategy_of_rocketmq",
            "test_a_group_that_mixes_the_two_strategies_leaves_a_queue_to_nobody",
        ),
    ),
    Erratum(
        "004",
        "by circle no member idles while a broker is read-only",
        "not with as many members as queues: then each has one queue, and some idle",
        ("test_by_circle_members_idle_too_when_each_has_one_queue",),
    ),
)


def errata_text() -> str:
    """The Markdown table, a row for each erratum, in the order of the texts."""
    head = ["| text | statement | behaviour | shown by |", "| --- | --- | --- | --- |"]
    rows = (
        f"| {row.text} | {row.says} | {row.runs} | {', '.join(f'`{t}`' for t in row.shown_by)} |"
        for row in ERRATA
    )
    return "\n".join([*head, *rows])


if __name__ == "__main__":
    write_section(PAGE, "errata", errata_text())
