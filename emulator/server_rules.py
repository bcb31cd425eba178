"""What the settings of the servers may be: ranges, checks and relations.

The settings themselves, with upstream's defaults, are in ``config``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.addresses import check_listening, check_target
from emulator.facts import kinds_on_demand
from emulator.property_names import BROKER, NAME_SERVER
from emulator.quirks import check_quirks
from emulator.releases import known_release
from emulator.setting_rules import LONG_MAX, Range, Relation, SettingRules, ranges
from protocol.delay_levels import parse_delay_levels

TIMER_PRECISIONS_MS = (100, 200, 500, 1_000)  # MessageStoreConfig.setTimerPrecisionMs


def _check_delay_levels(text: str) -> None:
    if not parse_delay_levels(text).is_whole:
        raise ValueError(f"delay levels look like 1s 5s 1m 2h 1d, not {text!r}")


def _check_targets(addresses: Sequence[str]) -> None:
    if isinstance(addresses, str):
        raise ValueError(f"it is a list of addresses, not the text {addresses!r}")  # noqa: TRY004
    for address in addresses:
        check_target(address)


def _check_advertised(address: str) -> None:
    if address:
        check_target(address)


def _check_advertised_to(addresses: Mapping[str, str]) -> None:
    for address in (*addresses, *addresses.values()):
        check_target(address)


def _check_not_empty(text: str) -> None:
    if not text.strip():
        raise ValueError("it cannot be empty")


NET_RULES = SettingRules(
    ranges(
        (Range(16_384), "frame_bytes_max"),  # the registration of a broker must fit
        (Range(256), "header_bytes_max"),
        (Range(1), "body_objects_max body_members_max registration_objects_max"),
        (Range(1), "idle_ms_max connect_ms_max outbox_bytes_max"),
        (Range(1, LONG_MAX), "outboxes_bytes_max"),
        (Range(0), "slow_answer_ms"),
    ),
    relations=(
        Relation(
            ("outboxes_bytes_max", "outbox_bytes_max"),
            lambda net: net.outboxes_bytes_max >= net.outbox_bytes_max,
            "{outboxes_bytes_max} must be at least {outbox_bytes_max}",
        ),
    ),
    properties=BROKER.names_by_setting(),
    prefix="net.",
)

NAME_SERVER_RULES = SettingRules(
    ranges(
        (Range(1), "broker_silence_ms_max scan_first_ms"),
        (Range(0), "scan_interval_ms wait_for_service_ms"),
        (Range(1), "brokers_max topics_max kv_entries_max"),
        (Range(1, LONG_MAX), "journal_bytes_max"),
        (Range(1), "journal_files_max"),
    ),
    {
        "release": known_release,
        "listen_address": check_listening,
        "facts_on_demand": kinds_on_demand,
    },
    (
        Relation(
            ("scan_first_ms", "broker_silence_ms_max"),
            lambda config: config.scan_first_ms <= config.broker_silence_ms_max,
            "{scan_first_ms} must be at most {broker_silence_ms_max}",
        ),
    ),
    NAME_SERVER.names_by_setting(),
)

BROKER_RULES = SettingRules(
    ranges(
        (Range(0), "broker_id"),
        (Range(0, 7, "4 for read, 2 for write, 1 for inherit, added up"), "perm"),
        (Range(0), "register_first_ms register_retry_ms register_call_ms_max"),
        (Range(1), "register_interval_ms"),
        (Range(1), "default_topic_queues topic_queues_max"),
        (Range(0, LONG_MAX), "behind_bytes_max"),
        (Range(100), "topics_max groups_max"),  # the broker needs some itself
        (Range(1), "producer_groups_max members_max heartbeat_groups_max subscriptions_max"),
        (Range(1), "locks_max committed_max"),
        (Range(1), "client_silence_ms_max client_scan_interval_ms lock_ms_max"),
        (Range(1), "short_polling_ms hold_sweep_interval_ms"),
        (Range(0), "held_pulls_max"),
        (Range(1), "transfer_bytes_max transfer_messages_max scan_entries_max"),
        (Range(1), "message_bytes_max segment_bytes"),
        (Range(0, LONG_MAX), "retained_bytes_max"),
        (Range(0), "retained_hours_max"),
        (Range(1), "persist_offsets_interval_ms persist_delays_interval_ms"),
        (Range(1), "sync_flush_ms_max flush_interval_ms flush_thorough_interval_ms"),
        (Range(0), "flush_least_pages"),
        (Range(1), "timer_delay_s_max timer_precision_ms timer_roll_window_slots"),
        (Range(1), "timer_slot_messages_max persist_timers_interval_ms"),
        (Range(1, LONG_MAX), "journal_bytes_max"),
        (Range(1), "journal_files_max"),
    ),
    {
        "release": known_release,
        "name": _check_not_empty,
        "cluster": _check_not_empty,
        "listen_address": check_listening,
        "advertised_address": _check_advertised,
        "advertised_to": _check_advertised_to,
        "namesrv": _check_targets,
        "delay_levels": _check_delay_levels,
        "quirks": check_quirks,
        "facts_on_demand": kinds_on_demand,
    },
    (
        Relation(
            ("advertised_to", "namesrv"),
            lambda config: set(config.advertised_to) <= set(config.namesrv),
            "{advertised_to}: each NameServer named there must be in {namesrv}",
        ),
        Relation(
            ("register_interval_ms", "client_silence_ms_max"),
            lambda config: config.register_interval_ms < config.client_silence_ms_max,
            "{register_interval_ms} must be below {client_silence_ms_max}",
        ),
        Relation(
            ("segment_bytes", "message_bytes_max"),
            lambda config: config.message_bytes_max + 131_072 <= config.segment_bytes,
            "{segment_bytes} must have room for a message of {message_bytes_max}, and 131072 more",
        ),
        Relation(
            ("retained_bytes_max", "segment_bytes"),
            lambda config: (
                config.retained_bytes_max >= 2 * config.segment_bytes
                or config.retained_bytes_max == 0
            ),
            "{retained_bytes_max} must hold at least two segments of {segment_bytes}, or be 0",
        ),
        Relation(
            ("flush_disk_type", "store"),
            lambda config: config.flush_disk_type != "SYNC_FLUSH" or config.store,
            "{flush_disk_type} needs a store (storePathRootDir, --store): "
            "memory cannot be flushed",
        ),
        Relation(
            ("flush_thorough_interval_ms", "flush_interval_ms"),
            lambda config: config.flush_thorough_interval_ms >= config.flush_interval_ms,
            "{flush_thorough_interval_ms} must be at least {flush_interval_ms}",
        ),
        Relation(
            ("timer_precision_ms",),
            lambda config: config.timer_precision_ms in TIMER_PRECISIONS_MS,
            f"{{timer_precision_ms}} must be one of {TIMER_PRECISIONS_MS}",
        ),
        Relation(
            ("fetch_namesrv", "address_server_domain"),
            lambda config: config.address_server_domain or not config.asks_address_server,
            "{fetch_namesrv} without namesrv (namesrvAddr) needs an address_server_domain "
            "(rmqAddressServerDomain) to ask",
        ),
    ),
    BROKER.names_by_setting(),
)
