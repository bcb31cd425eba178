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
