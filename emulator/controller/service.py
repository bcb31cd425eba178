"""The shell of a controller: it listens, scans for dead brokers and masters, notifies brokers.

A role change is a one-way request to the broker's own address, over a connection of the
controller, as in upstream: brokers answer it on their listening port only.

Upstream: ControllerManager, BrokerHousekeepingService.
"""

from __future__ import annotations

import random
from functools import partial

import msgspec
import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.controller.request_processor import handler_table
from rocketmq_emulator.controller.state.controller import COMMITTED, Controller
from rocketmq_emulator.controller.state.group import (
    ControllerGroup,
    GroupRequest,
    decode_group_reply,
)
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import NodeStarted, NodeStopped
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.own_calls import answer_extension_calls, note_requests
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import Peer
from rocketmq_emulator.net.tasks import OpenNursery, TaskNursery, every
from rocketmq_emulator.net.transport import Network
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.requests.controller import NotifyBrokerRoleChangedRequest
from rocketmq_emulator.settings.allowed_values import peers_in
from rocketmq_emulator.settings.config import ControllerConfig

GROUP_CALL_MS_MAX = 1_000  # ours: below the interval of heartbeats


async def serve_controller(
    config: ControllerConfig,
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
        controller = Controller(config, disk=disk, note=note, rng=rng, now_ms=clock.now_ms())
        server = RemotingServer(
            clock, config.net, config.parsed_release, note, handler_table(controller)
        )
        client = RemotingClient(
            network,
            nursery,
            clock=clock,
            config=config.net,
            release=config.parsed_release,
            note=note,
            handlers={},
        )
        note_requests(server, journal)
        allowed, reset = config.reply_rules_allowed, controller.reset
        answer_extension_calls(server, journal, allowed=allowed, rng=rng, reset=reset)
        server.on_closed = controller.closed

        def push(address: str, header: NotifyBrokerRoleChangedRequest, body: bytes) -> None:
            rpc = catalog.NOTIFY_BROKER_ROLE_CHANGED
            client.send_oneway(address, rpc, header, body)

        def scan_brokers() -> None:
            for peer in controller.scan_brokers(clock.now_ms()):
                server.close(peer)

        def scan_masters() -> None:
            controller.scan_masters(clock.now_ms())

        controller.push = push
        listener = await server.serve(network, config.served_address, nursery)
        controller.settings.address = listener.address
        interval_ms, first_ms = config.scan_interval_ms, config.scan_first_ms
        masters_ms = config.scan_masters_interval_ms
        brokers_alarm, masters_alarm = clock.new_alarm(), clock.new_alarm()
        nursery.start_soon(
            lambda: every(interval_ms, scan_brokers, first_ms=first_ms, alarm=brokers_alarm)
        )
        nursery.start_soon(
            lambda: every(masters_ms, scan_masters, first_ms=masters_ms, alarm=masters_alarm)
        )
        if controller.group is not None:
            join_group(controller.group, controller, server, client, clock, nursery)
        note(NodeStarted("controller", listener.address, config.release))
        task_status.started(listener.address)
        await stop.wait()
        note(NodeStopped("controller", "asked"))
        server.on_closed = _ignore  # the end of this controller is no death of a broker
        listener.close()
        server.close_all()
        client.end()
        nursery.cancel_scope.cancel()


def join_group(
    group: ControllerGroup,
    controller: Controller,
    server: RemotingServer,
    client: RemotingClient,
    clock: WallClock,
    nursery: TaskNursery,
) -> None:
    """Connect *group* to the other controllers, and run its time in *nursery*."""
    addresses = peers_in(controller.settings.config.peers)

    def send(other: str, request: GroupRequest) -> None:
        def take(reply: RemotingCommand | RemoteError) -> None:
            if isinstance(reply, RemoteError) or reply.code != ResponseCode.SUCCESS:
                group.failed(other, request)
                return
            try:
                found = decode_group_reply(request, reply.body)
            except msgspec.MsgspecError:  # it is no controller
                group.failed(other, request)
            else:
                group.answered(other, request, found, clock.now_ms())

        body, timeout_ms = msgspec.json.encode(request), GROUP_CALL_MS_MAX
        rpc, address = catalog.CONTROLLER_GROUP, addresses[other]
        client.invoke_async(address, rpc, None, body, timeout_ms=timeout_ms, on_done=take)

    def give_up() -> None:
        server.give_up_mark(COMMITTED, group.log.end)

    async def keep_time() -> None:
        alarm = clock.new_alarm()
        while True:
            await alarm.wait_until(clock.trio_time(max(group.next_due_ms, clock.now_ms() + 1)))
            with server.batch():
                group.tick(clock.now_ms())

    group.send = send
    controller.on_committed = partial(server.raise_mark, COMMITTED)
    controller.on_gave_up = give_up
    nursery.start_soon(keep_time)


def _ignore(_peer: Peer, _now_ms: int) -> None:
    """Upstream: the executor of its heartbeat table is shut down first."""
