"""A node whose loop is busy for ever once it is ready: nothing that needs the loop happens."""

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
    for _ in range(3):  # whoever waited for us says that we are ready
        await trio.lowlevel.checkpoint()
    while True:
        continue


if __name__ == "__main__":
    node.serve_role = spin  # type: ignore[attr-defined]  # what it was imported for
    sys.exit(node.main())
