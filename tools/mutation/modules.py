"""Which code is mutated, and the tests that hold it: the fast ones, or a run takes hours.

A path that ends in ``/`` is a folder.  Functions under a decorator (properties), class bodies
and module constants have no mutants.
"""

from __future__ import annotations

from typing import NamedTuple

CLIENT, TESTS = "emulator/client", "tests/emulator"
CLIENT_TESTS = f"{TESTS}/client"


class Module(NamedTuple):
    """One row of the report."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]


def _under(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names)


MODULES = (
    Module(
        "routes",
        (
            *_under(f"{CLIENT}/instance", "topic_routes"),
            *_under(f"{CLIENT}/producer", "publish_info"),
            *_under("emulator/nameserver/state", "routes"),
        ),
        (
            *_under(f"{CLIENT_TESTS}/instance", "test_routes", "test_instance"),
            *_under(f"{CLIENT_TESTS}/instance", "test_broker_permission", "test_topic_routes"),
            *_under(f"{CLIENT_TESTS}/producer", "test_fault_strategy", "test_producer"),
            *_under(f"{CLIENT_TESTS}/producer", "test_publish_info"),
            *_under(f"{TESTS}/nameserver", "test_nameserver_route_rules"),
            *_under(f"{TESTS}/nameserver", "test_nameserver_routes", "test_nameserver_admin"),
            *_under(f"{TESTS}/nameserver", "test_nameserver_invariants"),
            *_under(f"{TESTS}/nameserver", "test_nameserver_conversations"),
            *_under(f"{TESTS}/nameserver", "test_nameserver_bodies"),
        ),
    ),
    Module(
        "send",
        _under(
            f"{CLIENT}/producer",
            *("send_kernel", "send_attempts", "send_pipeline", "fault_strategy", "publish_info"),
        ),
        (f"{CLIENT_TESTS}/producer/",),
    ),
    Module(
        "rebalance",
        _under(f"{CLIENT}/consumer/group", "allocation", "rebalance"),
        (
            *_under(f"{CLIENT_TESTS}/consumer", "test_allocation", "test_rebalance"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance_causes", "test_push_consumer"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance_decisions"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance_path", "test_rebalance_steps"),
            *_under(f"{CLIENT_TESTS}/instance", "test_assignment_by_brokers"),
        ),
    ),
    Module(
        "pull",
        (
            *_under(f"{CLIENT}/consumer/group", "pull_kernel", "process_queue"),
            *_under(f"{CLIENT}/consumer/push", "pulling", "consume_pipeline"),
            *_under("emulator/broker/handlers", "pulling"),
        ),
        (
            *_under(f"{CLIENT_TESTS}/consumer", "test_pulling", "test_process_queue"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_consuming", "test_listeners"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_pull_requests", "test_rebalance"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance_causes", "test_push_consumer"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_consume_pipeline"),
            *_under(f"{TESTS}/broker", "test_broker_pulling", "test_broker_invariants"),
            *_under(f"{TESTS}/broker", "test_broker_recorded_answers", "test_pull_refusals"),
            *_under(f"{TESTS}/broker", "test_moved_offsets", "test_group_offsets"),
        ),
    ),
    Module(
        "offsets",
        (
            *_under(f"{CLIENT}/consumer/group", "offsets"),
            *_under("emulator/broker/tables", "offsets"),
        ),
        (
            *_under(f"{CLIENT_TESTS}/consumer", "test_consumer_offsets", "test_offset_resets"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance"),
            *_under(f"{TESTS}/broker", "test_offsets", "test_group_offsets"),
            *_under(f"{TESTS}/broker", "test_broker_invariants"),
        ),
    ),
    Module(
        "locks",
        (
            *_under("emulator/broker/tables", "locks"),
            *_under("emulator/broker/handlers", "queues"),
            *_under(f"{CLIENT}/consumer/push", "consume_orderly"),
        ),
        (
            *_under(f"{TESTS}/broker", "test_locks", "test_offsets", "test_broker_invariants"),
            *_under(f"{TESTS}/broker", "test_broker_conversations", "test_broker_clients"),
            *_under(f"{TESTS}/broker", "test_broker_recorded_answers"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_rebalance", "test_consuming"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_process_queue", "test_push_consumer"),
            *_under(f"{CLIENT_TESTS}/consumer", "test_queue_ownership"),
        ),
    ),
)
