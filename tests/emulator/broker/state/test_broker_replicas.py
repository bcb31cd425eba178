"""A broker as a master or a slave: its addresses, and what it learns from NameServers."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.state.broker import ha_address
from rocketmq_emulator.settings.config import BrokerConfig


@pytest.mark.parametrize(
    ("release", "port"), [("4.9.7", 10912), ("5.1.0", 10912), ("5.1.1", 40000), ("5.3.3", 40000)]
)
def test_r15_slaves_connect_to_the_next_port_or_since_5_1_1_to_the_one_that_is_set(
    release: str, port: int
) -> None:
    config = BrokerConfig(release=release, ha_port=40_000)
    assert ha_address("127.0.0.1:10911", config) == f"127.0.0.1:{port}"
    assert ha_address("127.0.0.1:10911", BrokerConfig(release=release)) == "127.0.0.1:10912"


@pytest.mark.parametrize(("role", "broker_id"), [("SLAVE", 0), ("ASYNC_MASTER", 1)])
def test_r28_role_and_id_that_do_not_fit_are_refused(role: str, broker_id: int) -> None:
    with pytest.raises(ValueError, match="a SLAVE has an id above 0"):
        BrokerConfig(broker_role=role, broker_id=broker_id)  # type: ignore[arg-type]
