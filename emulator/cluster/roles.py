"""A config struct is a role: its type says what to serve.

Each role imports only its own half, when it is served: memory and start-up time are
budgets of a node.
"""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING, TypeAlias

from emulator.config import BrokerConfig, NameServerConfig
from emulator.facts import kinds_on_demand

if TYPE_CHECKING:
    import trio

    from emulator.clock import WallClock
    from emulator.disk.port import Disk
    from emulator.journal import Journal
    from emulator.net.address_server import HttpNames
    from emulator.net.transport import Network

RoleConfig: TypeAlias = NameServerConfig | BrokerConfig

CONFIG_OF_ROLE: dict[str, type[RoleConfig]] = {
    "nameserver": NameServerConfig,
    "broker": BrokerConfig,
}


def import_role(role: str) -> None:
    """Load now what serving *role* would load later."""
    importlib.import_module(f"emulator.{role}.service")


async def serve_role(
    config: RoleConfig,
    *,
    network: Network,
    disk: Disk,
    clock: WallClock,
    rng: random.Random,
    journal: Journal,
    stop: trio.Event,
    http: HttpNames | None = None,
    task_status: trio.TaskStatus[str],
) -> None:
    """Serve until *stop*; started, with the bound address, once it is ready."""
    journal.ask_for(kinds_on_demand(config.facts_on_demand))
    if isinstance(config, BrokerConfig):
        from emulator.broker.service import serve_broker  # noqa: PLC0415  # see above

        await serve_broker(
            config,
            network=network,
            disk=disk,
            clock=clock,
            rng=rng,
            journal=journal,
            stop=stop,
            http=http,
            task_status=task_status,
        )
        return
    from emulator.nameserver.service import serve_name_server  # noqa: PLC0415  # see above

    await serve_name_server(
        config,
        network=network,
        disk=disk,
        clock=clock,
        rng=rng,
        journal=journal,
        stop=stop,
        task_status=task_status,
    )
