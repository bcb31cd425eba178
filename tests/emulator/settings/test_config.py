"""Settings that contradict each other are refused when the config is made."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"release": "new"}, "new"),
        ({"register_interval_ms": 120_000}, "client_silence_ms_max"),
        ({"segment_bytes": 4 * 1024 * 1024}, "must have room for a message"),
        ({"retained_bytes_max": 8 * 1024 * 1024}, "two segments"),
        ({"topics_max": 10}, "topics_max is at least 100"),
        ({"delay_levels": "1s soon"}, "delay levels look like"),
        ({"perm": 9}, "is between 0 and 7"),
    ],
)
def test_a_broker_s_settings_must_fit_each_other(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        BrokerConfig(**settings)


R5 = {"release": "5.3.3"}
CONTROLLED = {**R5, "enable_controller_mode": True, "controllers": ("127.0.0.1:9878",)}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"broker_role": "SYNC_MASTER", "broker_id": 1}, "a SLAVE has an id above 0"),
        ({"broker_role": "ASYNC_MASTER", "broker_id": 1}, "a SLAVE has an id above 0"),
        ({"broker_role": "SLAVE", "broker_id": 0}, "a SLAVE has an id above 0"),
        ({"broker_role": "SLAVE", "broker_id": -1}, r"broker_id \(brokerId\) is at least 0"),
        ({**R5, "listen_address": "h:10911", "ha_port": 10911}, "another port"),
        ({**R5, "ha_port": 65_536}, r"\(haListenPort\) is between"),
        ({"ha_master_address": "here"}, "ha_master_address"),
        ({**R5, "in_sync_replicas": 0}, r"\(inSyncReplicas\) is at least 1"),
        ({**R5, "in_sync_replicas": 1, "min_in_sync_replicas": 2}, "must be at most"),
        ({**R5, "total_replicas": 0}, r"\(totalReplicas\) is at least 1"),
        ({"slave_acting_master": True}, "needs release 5.0.0"),
        ({**R5, "enable_controller_mode": True}, "needs controllers"),
        ({**CONTROLLED, "release": "5.0.0"}, "5.1.1 or a later one"),
        ({**CONTROLLED, "controllers": ("here",)}, "controllers"),
    ],
)
def test_settings_of_replication_that_exclude_each_other_are_refused(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        BrokerConfig(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {**CONTROLLED, "slave_acting_master": True},
        {**CONTROLLED, "broker_role": "SLAVE", "broker_id": 0},
        {**CONTROLLED, "broker_role": "SYNC_MASTER", "broker_id": 7},
        {**R5, "in_sync_replicas": 3, "total_replicas": 2},
    ],
)
def test_upstream_excludes_no_others(settings: dict[str, Any]) -> None:
    config = BrokerConfig(**settings)
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"scan_first_ms": 0}, "scan_first_ms"),
        ({"scan_interval_ms": -1}, "scan_interval_ms"),
        ({"topics_max": 0}, "topics_max is at least 1"),
    ],
)
def test_a_name_server_s_settings_must_fit_each_other(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        NameServerConfig(**settings)
