"""The rules that should find a bug of each part: objections of other rules are luck."""

from __future__ import annotations

from collections.abc import Mapping

from tools.power.bug import Part

RULES: Mapping[Part, frozenset[str]] = {
    "send": frozenset(
        {
            *("attempts_are_bounded", "async_retries_stay", "retries_change_broker"),
            *("send_timeouts", "sends_end", "sends_follow_routes", "healthy_attempts_succeed"),
        }
    ),
    "routes": frozenset(
        {
            *("routes_are_current", "routes_are_shared", "routes_outlive_name_servers"),
            "sends_follow_routes",
        }
    ),
    "faults table": frozenset(
        {"isolations_are_tabled", "failures_isolate", "isolated_brokers_rest", "fairness"}
    ),
    "heartbeats": frozenset(
        {"members_are_listed", "heartbeats_come", "subscriptions_are_latest", "notices_wake"}
    ),
    "rebalance": frozenset(
        {
            *("pass_times", "passes", "shares_add_up", "shares_rest", "ownership"),
            *("releases_follow_passes", "notices_wake"),
        }
    ),
    "allocation": frozenset({"shares_add_up", "ownership", "shares_rest"}),
    "locks": frozenset(
        {"locks", "ownership", "liveness", "queues_are_unlocked", "one_listener_a_queue"}
    ),
    "pull": frozenset(
        {
            *("one_pull_at_a_time", "held_pulls", "pull_errors_wait", "expired_pulls"),
            *("first_pulls", "wakes", "lost", "liveness", "illegal_offsets_rest", "commits"),
            "queues_are_pulled",
        }
    ),
    "process queue": frozenset({"commits", "order", "lost"}),
    "offsets": frozenset({"commits", "duplicates", "lost"}),
    "retries": frozenset(
        {"retry_levels", "retries", "repeats_wait", "lost", "delays", "liveness", "places"}
    ),
    "delays": frozenset({"delays", "lost", "places"}),
    "broadcast": frozenset({"broadcasters_share_nothing", "lost", "duplicates", "repeats_wait"}),
    "lite pull": frozenset({"commits", "lost", "liveness", "shares_rest", "queues_are_pulled"}),
    "registration": frozenset({"registrations_come", "routes_are_current"}),
    "liveness of NameServer": frozenset({"expiries_wait", "dead_brokers_leave"}),
    "notification": frozenset({"notices_wake", "leavers_are_forgotten"}),
    "store": frozenset({"lost", "places", "duplicates"}),
    "recovery": frozenset({"lost", "places", "duplicates", "delays"}),
    "filters": frozenset({"filters", "lost", "liveness", "subscriptions_are_latest"}),
}


def right_rules(part: Part, found: list[str]) -> list[str]:
    """The rules of *found* that should find a bug of *part*."""
    return sorted(RULES[part].intersection(found))
