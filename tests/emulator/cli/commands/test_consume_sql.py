"""``consume --sql`` and ``watch --sql``, with brokers that filter by properties and others."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.cli.in_process import commands

DEAR = "price > 5"
NEEDS = "enablePropertyFilter"


def produced(namesrv: str):
    run = commands(NAMESRV_ADDR=namesrv)
    run("topic", "create", "orders", "--queues", "2")
    for price in ("3", "7", "9"):
        run("produce", "--topic", "orders", "--property", f"price={price}", stdin=price)
    return run


@pytest.fixture(scope="module")
def rmqemu():
    with EmbeddedCluster(ClusterSpec(broker_settings={"property_filter": True})) as running:
        yield produced(running.namesrv)


def test_a_group_and_a_peek_get_what_the_expression_matches(rmqemu) -> None:
    group = rmqemu("consume", "--topic=orders", f"--sql={DEAR}", "--count=2", "--timeout=20")
    assert (group.exit_code, sorted(group.stdout.split())) == (0, ["7", "9"])
    peek = rmqemu("consume", "--topic=orders", f"--sql={DEAR}", "--peek")
    assert (peek.exit_code, sorted(peek.stdout.split())) == (0, ["7", "9"])


def test_a_wrong_expression_is_an_error_and_not_every_message(rmqemu) -> None:
    for words in (("--peek",), ("--timeout=5",)):
        found = rmqemu("consume", "--topic=orders", "--sql=price >", *words, code=1)
        assert found.stdout == ""
    both = rmqemu("consume", "--topic=orders", f"--sql={DEAR}", "--tags=T", code=2)
    assert "--tags and --sql" in both.stderr


def test_a_broker_that_does_not_filter_is_named_with_its_setting() -> None:
    with EmbeddedCluster(ClusterSpec(brokers=1)) as running:
        run = produced(running.namesrv)
        for words in (("--peek",), ("--timeout=5",)):
            found = run("consume", "--topic=orders", f"--sql={DEAR}", *words, code=1)
            assert (found.stdout, NEEDS in found.stderr) == ("", True)
