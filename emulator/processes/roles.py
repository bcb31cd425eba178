"""The roles of nodes; the type of the config struct selects the role.

Each role's code is imported only when it is served, to keep a node's memory and start-up time
small.
"""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.facts import kinds_on_demand
from rocketmq_emulator.settings.config import BrokerConfig, ControllerConfig, NameServerConfig

if TYPE_CHECKING:
    import trio

    from rocketmq_emulator.clocks.clock import WallClock
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts.journal import Journal
    from rocketmq_emulator.net.address_server import HttpFetcher
    from rocketmq_emulator.net.tasks import OpenNursery
    from rocketmq_emulator.net.transport import Network

RoleConfig: TypeAlias = NameServerConfig | BrokerConfig | ControllerConfig

CONFIG_OF_ROLE: dict[str, type[RoleConfig]] = {
    "nameserver": NameServerConfig,
    "broker": BrokerConfig,
    "controller": ControllerConfig,
}


def role_of(config: RoleConfig) -> str:
    """The role that *config* is for."""
    return next(role for role, kind in CONFIG_OF_ROLE.items() if type(config) is kind)


def import_role(role: str) -> None:
    """Import the code of *role* now, before it is served."""
    importlib.import_module(f"rocketmq_emulator.{role}.service")


async def serve_role(
    config: RoleConfig,
    *,
    network: Network,
    disk: Disk,
    clock: WallClock,
    rng: random.Random,
    journal: Journal,
    stop: trio.Event,
    http: HttpFetcher | None = None,
    open_nursery: OpenNursery | None = None,
    task_status: trio.TaskStatus[str],
) -> None:
    """Serve until *stop*; *task_status* gets the bound address once the node is ready.

    *open_nursery* opens the nurseries of its tasks; by default ``trio.open_nursery``.
    """
    if open_nursery is None:
        from trio import open_nursery as of_trio  # noqa: PLC0415  # `up` loads it later

        open_nursery = of_trio

    journal.enable_on_demand(kinds_on_demand(config.facts_on_demand))
    if isinstance(config, BrokerConfig):
        from rocketmq_emulator.broker.service import serve_broker  # noqa: PLC0415  # see above

        await serve_broker(
            config,
            network=network,
            disk=disk,
            clock=clock,
            rng=rng,
            journal=journal,
            stop=stop,
            http=http,
            open_nursery=open_nursery,
            task_status=task_status,
        )
        return
    if isinstance(config, ControllerConfig):
        from rocketmq_emulator.controller.service import serve_controller  # noqa: PLC0415  # see above

        await serve_controller(
            config,
            network=network,
            disk=disk,
            clock=clock,
            rng=rng,
            journal=journal,
            stop=stop,
            open_nursery=open_nursery,
            task_status=task_status,
        )
        return
    from rocketmq_emulator.nameserver.service import serve_name_server  # noqa: PLC0415  # see above

    await serve_name_server(
        config,
        network=network,
        disk=disk,
        clock=clock,
        rng=rng,
        journal=journal,
        stop=stop,
        open_nursery=open_nursery,
        task_status=task_status,
    )
