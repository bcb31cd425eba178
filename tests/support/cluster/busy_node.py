"""A node that blocks its event loop for ever once it is ready."""

from __future__ import annotations

import sys

import trio

from rocketmq_emulator.processes import node
from rocketmq_emulator.processes.roles import RoleConfig


async def spin(
    config: RoleConfig,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    **_parts: object,
) -> None:
    task_status.started(config.listen_address)
    for _ in range(3):  # the waiting task writes the readiness line
        await trio.lowlevel.checkpoint()
    while True:
        continue


if __name__ == "__main__":
    node.serve_role = spin  # type: ignore[attr-defined]  # ``main`` runs it
    sys.exit(node.main())
