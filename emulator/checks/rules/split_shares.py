"""Queues that nobody takes, by right: a NameServer lacks a topic, or members share differently.

A client asks one NameServer.  While one of them lacks a topic at a broker (`partial_routes`), the
members that ask it count fewer queues than the others.  Each takes its share of what it counts,
and these shares do not fit together: two take one queue, and another one nobody takes.  That
lasts as long as the routes differ: every pass comes to the same shares.

Otherwise every queue has an owner once nothing has changed for long enough (``unchanged_us``), if
members share in one way (``all_allocate_alike``).
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
    """Some NameServer lacks the queue; or nobody holds it, and members count different ones."""
    if cluster.topics.is_partial(queue):
        return True
    if not cluster.counts_differ(group, queue.topic):
        return False
    running = {consumer.node for consumer in cluster.running(group)}
    holds = () if reading is None else reading.claims.items()
    return not any(hold.ended_us is None and node in running for node, hold in holds)


def all_allocate_alike(cluster: ClusterState, group: str, topic: str) -> bool:
    """The members of *group*, each under an id of its own, all share out *topic*, in one way.

    A queue that falls to a member that does not subscribe its topic, or to the second of two with
    one id, is nobody's (client invariant 33); and what a strategy leaves is its own affair.
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
    """For how long, at the longest, members, brokers, their topics and routes stayed as they were.

    Members that ended count too: brokers list one that vanished for a while.
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
    """Does it share the queues of *topic* with the others of its group?"""
    return member.consumer_kind != "pull" and not member.broadcast and topic in member.topics
