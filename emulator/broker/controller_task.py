"""The tasks of a broker in controller mode: they carry out what its ControlledReplica decides.

Upstream: ReplicasManager.start, BrokerController.scheduleSendHeartbeat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from rocketmq_emulator.broker.copying_task import synchronize_with_master
from rocketmq_emulator.broker.replication.replicas_manager import (
    CALL_MS_MAX,
    FIRST_SYNC_MS,
    RETRY_MS,
    SCAN_MS,
    ControlledReplica,
    PauseStep,
    State,
    Steps,
)
from rocketmq_emulator.broker.role_changes import RoleChanges
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.net.tasks import every_async
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    import random

    from rocketmq_emulator.broker.registration import NameServerRegistration
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.protocol.command import RemotingCommand

T = TypeVar("T")
FIRST_HEARTBEAT_MS = 1_000  # BrokerController.scheduleSendHeartbeat


class RestartableTask:
    """A task in *nursery* that ends when it is stopped or started again."""

    def __init__(self, nursery: TaskNursery, run: Callable[[], Awaitable[object]]) -> None:
        self._nursery = nursery
        self._run = run
        self._scope = trio.CancelScope()

    def restart(self) -> None:
        """End the task, and begin a new one."""
        self.stop()
        self._scope = trio.CancelScope()
        self._nursery.start_soon(self._run_in, self._scope)

    def stop(self) -> None:
        """End the task, if it runs."""
        self._scope.cancel()

    async def _run_in(self, scope: trio.CancelScope) -> None:
        with scope:
            await self._run()


class ControllerTasks:
    """Follows the controllers of *broker*, from ``start`` on, in *nursery*."""

    def __init__(
        self, broker: Broker, client: RemotingClient, nursery: TaskNursery, rng: random.Random
    ) -> None:
        self._broker = broker
        self._client = client
        self._nursery = nursery
        self._looks = 0  # that have not ended
        self._has_looked = trio.Event()  # at all controllers once
        now_ms = client.clock.now_ms
        self.roles = RoleChanges(broker, now_ms)
        kind = class_for(ControlledReplica, "broker", broker.config.quirks)
        self.manager = broker.controlled = kind(
            broker.config, broker.disk, self.roles, note=broker.note, rng=rng, now_ms=now_ms
        )
        self.manager.address = broker.address

    def connect(
        self, registration: NameServerRegistration, special_services: Callable[[bool], object]
    ) -> None:
        """Let role changes act on *registration*, and start and stop *special_services*."""
        config, roles = self._broker.config, self.roles
        checks = RestartableTask(
            self._nursery,
            partial(
                every_async,
                config.check_sync_state_set_interval_ms,
                self._check_sync_state_set,
                first_ms=FIRST_SYNC_MS,
            ),
        )
        copying = RestartableTask(self._nursery, self._synchronize)
        roles.register_soon = registration.register_soon
        roles.special_services = special_services
        roles.restart_checks, roles.stop_checks = partial(self._checked_now, checks), checks.stop
        roles.restart_sync, roles.stop_sync = copying.restart, copying.stop

    async def start(self) -> None:
        """Try once to get a role; the tasks go on with that, and with all that follows.

        Upstream does not wait for its first look at the controllers: its first try finds none.
        """
        nursery, config, manager = self._nursery, self._broker.config, self.manager
        await self._look()
        await self._has_looked.wait()
        runs = await self._carry_out(manager.start())
        nursery.start_soon(partial(every_async, SCAN_MS, self._look, first_ms=SCAN_MS))
        nursery.start_soon(
            partial(
                every_async,
                config.sync_controllers_interval_ms,
                self._find_leader,
                first_ms=FIRST_SYNC_MS,
            )
        )
        nursery.start_soon(
            partial(
                every_async,
                config.broker_heartbeat_interval_ms,
                self._send_heartbeats,
                first_ms=FIRST_HEARTBEAT_MS,
            )
        )
        if runs:
            self._begin_to_follow()
        else:
            nursery.start_soon(self._try_again)

    # Tasks ----------------------------------------------------------------------------

    async def _try_again(self) -> None:
        while True:
            await trio.sleep(RETRY_MS / 1_000)
            if await self._carry_out(self.manager.start()):
                break
        self._begin_to_follow()

    def _begin_to_follow(self) -> None:
        interval_ms = self._broker.config.sync_role_interval_ms
        sync = partial(every_async, interval_ms, self._sync_role, first_ms=FIRST_SYNC_MS)
        self._nursery.start_soon(sync)
        self._broker.auto_switch.on_sync_state_set_change = self._report

    async def _look(self) -> None:
        """Look at all controllers at once.  Upstream: scanAvailableControllerAddresses."""
        controllers = self._broker.config.controllers
        self._looks = len(controllers)
        for address in controllers:
            self._nursery.start_soon(self._look_at, address)

    async def _look_at(self, address: str) -> None:
        is_reachable = await self._client.wait_connected(address)
        self.manager.looked_at(address, is_reachable=is_reachable)
        self._looks -= 1
        if not self._looks:
            self._has_looked.set()

    async def _find_leader(self) -> None:
        if self.manager.state is not State.INITIAL:
            await self._carry_out(self.manager.find_leader())

    async def _send_heartbeats(self) -> None:
        if self._broker.members.is_isolated:
            return
        heartbeat = self.manager.heartbeat()
        for address in self.manager.reachable:
            self._client.send_oneway(address, catalog.BROKER_HEARTBEAT, heartbeat)

    async def _sync_role(self) -> None:
        await self._carry_out(self.manager.sync_role())

    async def _check_sync_state_set(self) -> None:
        await self._carry_out(self.manager.check_sync_state_set())

    def _checked_now(self, checks: RestartableTask) -> None:
        """Check at intervals from now on, and once at once."""
        checks.restart()
        self._nursery.start_soon(self._check_sync_state_set)

    def _report(self, broker_ids: frozenset[int]) -> None:
        # Connections of slaves may outlast the nursery of a killed broker: it takes no new tasks.
        if self._broker.has_closed:
            return
        self._nursery.start_soon(self._carry_out, self.manager.report_sync_state_set(broker_ids))

    async def _synchronize(self) -> None:
        slave, client = self._broker.slave_synchronize, self._client
        assert slave is not None, "every broker in controller mode can be a slave"
        now_ms = client.clock.now_ms
        await synchronize_with_master(slave, client, now_ms, own_address=self._broker.address)

    # Calls ----------------------------------------------------------------------------

    async def _carry_out(self, steps: Steps[T]) -> T:
        """Make the calls of *steps*, and give it the answers; returns what it returns."""
        answer: RemotingCommand | RemoteError | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as ended:
                result: T = ended.value
                return result
            answer = None
            if isinstance(step, PauseStep):
                await trio.sleep(step.ms / 1_000)
            elif step.rpc.one_way:
                self._client.send_oneway(step.address, step.rpc, step.header, step.body)
            else:
                try:
                    answer = await self._client.invoke(
                        step.address, step.rpc, step.header, step.body, timeout_ms=CALL_MS_MAX
                    )
                except RemoteError as error:
                    answer = error
