"""The shell of a NameServer: it listens, scans for silent brokers, and closes their channels.

Upstream: NamesrvController, BrokerHousekeepingService.
"""

from __future__ import annotations

import random

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.facts import NodeStarted, NodeStopped
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.nameserver.request_processors import handler_table
from rocketmq_emulator.nameserver.state.nameserver import NameServer
from rocketmq_emulator.net.own_calls import answer_extension_calls, note_requests
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.tasks import OpenNursery, every
from rocketmq_emulator.net.transport import Network
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.requests.nameserver import NotifyMinBrokerIdChangeRequest
from rocketmq_emulator.settings.config import NameServerConfig


async def serve_name_server(
    config: NameServerConfig,
    *,
    network: Network,
    disk: Disk,
    clock: WallClock,
    rng: random.Random,
    journal: Journal,
    stop: trio.Event,
    open_nursery: OpenNursery = trio.open_nursery,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until *stop* is set; reports its bound address to *task_status* once it listens."""
    note = journal.note
    async with open_nursery() as nursery:
        name_server = NameServer(config, disk=disk, note=note, started_ms=clock.now_ms())
        server = RemotingServer(
            clock,
            config.net,
            config.parsed_release,
            note,
            handler_table(name_server),
            unknown_is_silent=name_server.unknown_is_silent,
        )
        note_requests(server, journal)
        allowed, reset = config.reply_rules_allowed, name_server.reset
        answer_extension_calls(server, journal, allowed=allowed, rng=rng, reset=reset)
        client: RemotingClient | None = None  # made at the first notice: most send none

        def notify(address: str, header: NotifyMinBrokerIdChangeRequest) -> None:
            nonlocal client
            client = client or RemotingClient(
                network,
                nursery,
                clock=clock,
                config=config.net,
                release=config.parsed_release,
                note=note,
                handlers={},
            )
            client.send_oneway(address, catalog.NOTIFY_MIN_BROKER_ID_CHANGE, header)

        name_server.notify = notify
        server.on_closed = name_server.closed

        def scan() -> None:
            for peer in name_server.scan(clock.now_ms()):
                server.close(peer)

        listener = await server.serve(network, config.listen_address, nursery)
        name_server.settings.set_listen_address(listener.address)
        interval_ms = name_server.scan_interval_ms
        first_ms, alarm = config.scan_first_ms, clock.new_alarm()
        nursery.start_soon(lambda: every(interval_ms, scan, first_ms=first_ms, alarm=alarm))
        note(NodeStarted("nameserver", listener.address, config.release))
        task_status.started(listener.address)
        await stop.wait()
        note(NodeStopped("nameserver", "asked"))
        listener.close()
        server.close_all()
        if client is not None:
            client.end()
        nursery.cancel_scope.cancel()
