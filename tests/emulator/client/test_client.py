"""The public names of ``rocketmq_emulator.client``, and the cost of importing them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rocketmq_emulator.client
from rocketmq_emulator.client import (
    BadSubscription,
    ClientError,
    GroupCallRefused,
    Misuse,
    PushConsumer,
)
from rocketmq_emulator.errors import call_errors
from tests.support.client.client_cluster import in_world


def exceptions_of_the_client() -> set[type[Exception]]:
    values = vars(call_errors).values()
    return {each for each in values if isinstance(each, type) and issubclass(each, ClientError)}


@pytest.mark.parametrize("name", rocketmq_emulator.client.__all__)
def test_every_name_of_the_face_can_be_had(name) -> None:
    assert getattr(rocketmq_emulator.client, name) is not None


def test_every_error_that_the_client_defines_is_on_its_face() -> None:
    raised = {kind.__name__ for kind in exceptions_of_the_client()}
    assert "BrokerRefused" in raised
    assert raised <= set(rocketmq_emulator.client.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no Consumer"):
        _ = rocketmq_emulator.client.Consumer


def test_importing_the_face_does_not_load_what_waits() -> None:
    modules = "rocketmq_emulator.client, rocketmq_emulator.client.settings.config"
    program = f"import sys, {modules}; print('trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


def test_a_subscription_that_makes_no_sense_is_a_misuse() -> None:
    async def main(cluster):
        await cluster.start()
        settings = {"namesrv": cluster.namesrv.address, "group": "g"}
        async with cluster.process() as process:
            consumer = PushConsumer(print, {"t": "||"}, process=process, **settings)
            with pytest.raises(BadSubscription, match="t: ") as caught:
                async with consumer:
                    pass
            assert isinstance(caught.value, Misuse)

    in_world(main)


def test_an_expression_that_no_broker_checks_ends_a_start_with_an_error_of_the_client() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})  # its table has no CHECK_CLIENT_CONFIG
        cluster.brokers["a"].stop()
        settings = {"namesrv": cluster.namesrv.address, "group": "g"}
        async with cluster.process() as process:
            wanted = {"t": ("price > 5", "SQL92")}
            consumer = PushConsumer(print, wanted, process=process, **settings)
            with pytest.raises(GroupCallRefused, match="expression of t") as caught:
                async with consumer:
                    pass
            assert isinstance(caught.value, ClientError)

    in_world(main)
