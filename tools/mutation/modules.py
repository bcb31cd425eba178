"""The modules that are mutated, with their tests: only fast ones, or a run takes hours.

A path that ends in ``/`` is a folder.  mutmut does not change decorated functions (properties),
class bodies and module constants.
"""

from __future__ import annotations

from typing import NamedTuple

CLIENT = "emulator/client"
CLIENT_TESTS = "tests/emulator/client"
GROUP_TESTS = f"{CLIENT_TESTS}/consumer/group"
PUSH_TESTS = f"{CLIENT_TESTS}/consumer/push"
BROKER_TESTS = "tests/emulator/broker"
NAMESERVER_TESTS = "tests/emulator/nameserver"


class Module(NamedTuple):
    """One row of the table in docs/mutation.md."""

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
            *_under(f"{CLIENT_TESTS}/instance", "test_instance", "test_topic_routes"),
            *_under(f"{CLIENT_TESTS}/instance", "test_topic_routes_permission"),
            *_under(f"{CLIENT_TESTS}/instance", "test_topic_routes_queues"),
            *_under(f"{CLIENT_TESTS}/producer", "test_fault_strategy", "test_producer"),
            *_under(f"{CLIENT_TESTS}/producer", "test_publish_info"),
            *_under(f"{NAMESERVER_TESTS}/state", "test_registration", "test_routes"),
            *_under(NAMESERVER_TESTS, "test_nameserver_bodies", "test_nameserver_conversations"),
            *_under(NAMESERVER_TESTS, "test_nameserver_invariants"),
            *_under(NAMESERVER_TESTS, "test_request_processors_admin"),
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
            *_under(GROUP_TESTS, "test_allocation", "test_rebalance", "test_rebalance_causes"),
            *_under(GROUP_TESTS, "test_rebalance_decisions", "test_rebalance_path"),
            *_under(GROUP_TESTS, "test_rebalance_steps"),
            *_under(PUSH_TESTS, "test_push_consumer"),
            *_under(f"{CLIENT_TESTS}/instance", "test_topic_routes_assignment"),
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
            *_under(GROUP_TESTS, "test_listeners", "test_process_queue", "test_pull_kernel"),
            *_under(GROUP_TESTS, "test_rebalance", "test_rebalance_causes"),
            *_under(PUSH_TESTS, "test_consume_pipeline", "test_pulling", "test_push_consumer"),
            *_under(PUSH_TESTS, "test_push_consuming"),
            *_under(f"{BROKER_TESTS}/handlers", "test_offsets", "test_pulling"),
            *_under(f"{BROKER_TESTS}/handlers", "test_pulling_moved_offsets"),
            *_under(f"{BROKER_TESTS}/handlers", "test_pulling_refusals"),
            *_under(BROKER_TESTS, "test_broker_invariants", "test_broker_recorded_answers"),
        ),
    ),
    Module(
        "offsets",
        (
            *_under(f"{CLIENT}/consumer/group", "offsets"),
            *_under("emulator/broker/tables", "offsets"),
        ),
        (
            *_under(GROUP_TESTS, "test_offsets", "test_rebalance"),
            *_under(PUSH_TESTS, "test_push_consumer_offset_resets"),
            *_under(f"{BROKER_TESTS}/handlers", "test_offsets"),
            *_under(f"{BROKER_TESTS}/tables", "test_offsets"),
            *_under(BROKER_TESTS, "test_broker_invariants"),
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
            *_under(f"{BROKER_TESTS}/handlers", "test_clients", "test_queues_assignment"),
            *_under(f"{BROKER_TESTS}/tables", "test_locks", "test_offsets"),
            *_under(BROKER_TESTS, "test_broker_conversations", "test_broker_invariants"),
            *_under(BROKER_TESTS, "test_broker_recorded_answers"),
            *_under(GROUP_TESTS, "test_process_queue", "test_rebalance"),
            *_under(PUSH_TESTS, "test_consume_orderly_ownership", "test_push_consumer"),
            *_under(PUSH_TESTS, "test_push_consuming"),
        ),
    ),
)
