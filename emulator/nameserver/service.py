"""The shell of a NameServer: it listens, scans for silent brokers, and closes their channels.

Upstream: NamesrvController, BrokerHousekeepingService.
"""

from __future__ import annotations

import random

import trio

from emulator.clock import WallClock
from emulator.config import NameServerConfig
from emulator.disk.port import Disk
from emulator.facts import NodeStarted, NodeStopped
from emulator.journal import Journal
from emulator.nameserver.handlers.table import handler_table
from emulator.nameserver.nameserver import NameServer
from emulator.net.evidence import note_requests
from emulator.net.own_calls import answer_own_calls
from emulator.net.remoting_server import RemotingServer
from emulator.net.services import every
from emulator.net.transport import Network


async def serve_name_server(
    config: NameServerConfig,
    *,
    network: Network,
    disk: Disk,
    clock: WallClock,
    rng: random.Random,
    journal: Journal,
    stop: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until *stop* is set; started once it listens, with the address it is bound to."""
    note = journal.note
    async with trio.open_nursery() as nursery:
        name_server = NameServer(config, disk=disk, note=note, started_ms=clock.now_ms())
        server = RemotingServer(
            clock,
            config.net,
            config.profile,
            note,
            handler_table(name_server),
            unknown_is_silent=name_server.unknown_is_silent,
        )
        note_requests(server, journal)
        allowed, reset = config.reply_rules_allowed, name_server.reset
        answer_own_calls(server, journal, allowed=allowed, rng=rng, reset=reset)
        name_server.push = server.push
        server.on_closed = name_server.closed

        def scan() -> None:
            for peer in name_server.scan(clock.now_ms()):
                server.close(peer)

        listener = await server.serve(network, config.listen_address, nursery)
        name_server.settings.listens_at(listener.address)
        interval_ms = name_server.scan_interval_ms
        first_ms, alarm = config.scan_first_ms, clock.new_alarm()
        nursery.start_soon(lambda: every(interval_ms, scan, first_ms=first_ms, alarm=alarm))
        note(NodeStarted("nameserver", listener.address, config.release))
        task_status.started(listener.address)
        await stop.wait()
        note(NodeStopped("nameserver", "asked"))
        listener.close()
        server.close_all()
        nursery.cancel_scope.cancel()
