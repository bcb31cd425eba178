"""The life of a consumer is the same for each kind."""

from __future__ import annotations

import pytest

from rocketmq_emulator import LitePullConsumer, NotRunning, PullConsumer, PushConsumer
from rocketmq_emulator.client.consumer.group.group_consumer import GroupConsumer

KINDS = (PushConsumer, PullConsumer, LitePullConsumer)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_starts_and_ends_as_the_others(kind: type) -> None:
    assert issubclass(kind, GroupConsumer)
    assert kind.__aenter__ is GroupConsumer.__aenter__
    assert kind.__aexit__ is GroupConsumer.__aexit__


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_has_not_started_has_no_instance_and_no_queues(kind: type) -> None:
    consumer = kind(group="billing")
    for name in ("instance", "queues"):
        with pytest.raises(NotRunning, match="inside its `async with`"):
            getattr(consumer, name)
