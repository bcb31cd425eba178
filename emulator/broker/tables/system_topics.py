"""The topics every broker has before anybody asks: some for itself, some as templates.

Upstream: the constructor of TopicConfigManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.releases import FIVE
from protocol import names
from protocol.bodies.topics import TopicConfig
from protocol.perm import INHERIT, READ_WRITE

if TYPE_CHECKING:
    from emulator.config import BrokerConfig

_TEMPLATE = READ_WRITE | INHERIT  # whoever sends to a missing topic may inherit this one


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """In the order in which upstream makes them."""
    queues = config.default_topic_queues
    always = True
    is_five = config.profile >= FIVE
    rows = (  # wanted, name, queues, perm
        (always, names.SELF_TEST_TOPIC, 1, READ_WRITE),
        (config.auto_create_topic, names.AUTO_CREATE_TOPIC_KEY_TOPIC, queues, _TEMPLATE),
        (always, names.BENCHMARK_TOPIC, 1024, READ_WRITE),
        (always, config.cluster, 16, _TEMPLATE if config.cluster_topic else INHERIT),
        (always, config.name, 1, _TEMPLATE if config.broker_topic else INHERIT),
        (always, names.OFFSET_MOVED_EVENT, 1, READ_WRITE),
        (always, names.SCHEDULE_TOPIC, 18, READ_WRITE),
        (config.trace_topic, names.TRACE_TOPIC, 1, READ_WRITE),
        (always, names.reply_topic(config.cluster), 1, READ_WRITE),
        (is_five, f"rmq_sys_REVIVE_LOG_{config.cluster}", 8, READ_WRITE),
        (is_five, f"rmq_sys_SYNC_BROKER_MEMBER_{config.name}", 1, INHERIT),
        (is_five, names.TRANS_HALF_TOPIC, 1, READ_WRITE),
        (is_five, names.TRANS_OP_HALF_TOPIC, 1, READ_WRITE),
        (is_five, names.TIMER_TOPIC, 1, READ_WRITE),
    )
    return [
        TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)
        for wanted, name, count, perm in rows
        if wanted
    ]
