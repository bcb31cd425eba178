"""Queues that may have no owner: a NameServer lacks a topic, or members allocate differently.

A client asks one NameServer.  While one of them lacks a topic at a broker (``PartialRoutes``), the
members that ask it count fewer queues than the others.  Each takes its share of the queues it
counts, and these shares do not fit together: two members take one queue, and none takes another.
That lasts as long as the routes differ: every pass computes the same shares.

Otherwise every queue has an owner once nothing has changed for long enough (``unchanged_us``), if
all members allocate in one way (``all_allocate_alike``).
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.queue_records import QueueReading
from rocketmq_emulator.facts import ConsumerStarted, Queue

EXCLUSIVE_STRATEGIES = frozenset(
    {"averagely", "by_circle", "consistent_hash"}
)  # each queue to one member


def is_unassigned(
    cluster: ClusterState, group: str, queue: Queue, reading: QueueReading | None
) -> bool:
    """Whether a NameServer or an elected master lacks it, or nobody holds it and counts differ."""
    if cluster.topics.is_partial(queue) or cluster.topics.has_lost(queue):
        return True
    if not cluster.counts_differ(group, queue.topic):
        return False
    running = {consumer.node for consumer in cluster.running(group)}
    holds = () if reading is None else reading.claims.items()
    return not any(hold.ended_us is None and node in running for node, hold in holds)


def all_allocate_alike(cluster: ClusterState, group: str, topic: str) -> bool:
    """Whether all members of *group* have unique ids and share out *topic* by one strategy.

    Else a queue may have no owner: it may be assigned to a member that does not subscribe its
    topic, or to the second of two members with one id (client invariant 33); custom strategies may
    leave queues out.
    """
    consumers = cluster.running(group)
    if len({consumer.started.client for consumer in consumers}) < len(consumers):
        return False
    if not all(shares(consumer.started, topic) for consumer in consumers):
        return False
    parts = [each for each in cluster.plan.get("consumers", ()) if each.get("group") == group]
    strategies = {part.get("strategy", "averagely") for part in parts}
    if len(strategies) != 1 or not strategies <= EXCLUSIVE_STRATEGIES:
        return False
    settings = (all_ for part in parts for all_ in part.get("settings_of", {}).values())
    return not any("strategy" in each for each in settings)


def unchanged_us(cluster: ClusterState, group: str, topic: str, since_us: int, now_us: int) -> int:
    """The longest time without a change or fault of members, brokers, their topics and routes.

    Members that ended count, too: brokers still list a silently ended member for a while.
    """
    topics, consumers = cluster.topics, cluster.consumers[group]
    brokers = topics.brokers_of(topic)
    changed_us = [
        *(topics.changed_us(broker) for broker in brokers),
        *(at_us for consumer in consumers for at_us in (consumer.from_us, consumer.until_us or 0)),
    ]
    changes = [(at_us, at_us) for at_us in changed_us if since_us < at_us <= now_us]
    lacking = topics.partial.spans(brokers, topic, now_us)
    nodes = {*(consumer.node for consumer in consumers), *brokers, *topics.name_servers}
    return cluster.undisturbed_us(nodes, since_us, now_us, [*changes, *lacking])


def shares(member: ConsumerStarted, topic: str) -> bool:
    """Whether *member* shares the queues of *topic* with the others of its group."""
    return member.consumer_kind != "pull" and not member.broadcast and topic in member.topics
