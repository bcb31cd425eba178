"""One role as one operating-system process: ``python -m emulator.node broker '{"name": …}'``.

The second argument is the role's config struct as JSON.  Imports are a budget here: no
terminal library is loaded, so that three servers are up in a fraction of a second and
small.  A line of JSON on standard output says when the node is ready; errors of the
world (a port in use, an unwritable store) are one line on standard error.

Options after it: ``--journal FILE`` appends facts as JSON Lines; ``--with-parent``
ends the node when its standard input ends, so that no orphan outlives who started it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from emulator.clock import WallClock
from emulator.config import BrokerConfig, NameServerConfig
from emulator.disk.files import FileDisk, StoreInUse, StoreUnwritable
from emulator.disk.memory import MemoryDisk
from emulator.disk.port import Disk, DiskFull
from emulator.journal import Journal
from emulator.net.tcp import TcpNetwork

WORLD_SAYS_NO, BAD_USE = 1, 2
ROLES = {"nameserver": NameServerConfig, "broker": BrokerConfig}


def main() -> int:
    role, text, *options = sys.argv[1:]
    try:
        config = msgspec.json.decode(text, type=ROLES[role])
    except (KeyError, msgspec.ValidationError) as error:
        return _said(role, error, BAD_USE)
    journal = options[options.index("--journal") + 1] if "--journal" in options else ""
    try:
        trio.run(run_node, role, config, journal, "--with-parent" in options)
    except BaseExceptionGroup as group:
        return _said(role, first_cause(group), WORLD_SAYS_NO)
    except (OSError, DiskFull, StoreInUse, StoreUnwritable) as error:
        return _said(role, error, WORLD_SAYS_NO)
    return 0


def first_cause(error: BaseException) -> BaseException:
    """The error itself, out of however many groups trio has wrapped it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(role: str, error: BaseException, code: int) -> int:
    if not isinstance(error, Exception):
        raise error
    print(f"{role}: {error}", file=sys.stderr)  # noqa: T201  # this line is the interface
    return code


async def run_node(
    role: str, config: NameServerConfig | BrokerConfig, journal_path: str, with_parent: bool
) -> None:
    """Serve until a signal, or the end of standard input, says stop."""
    stop = trio.Event()
    async with trio.open_nursery() as watchers:
        watchers.start_soon(_stop_on_signal, stop)
        if with_parent:
            watchers.start_soon(_stop_with_parent, stop)
        clock = WallClock.of_this_machine()
        name = config.name if isinstance(config, BrokerConfig) else "namesrv"
        journal = Journal(name, clock.now_ms, _appender(journal_path))
        async with trio.open_nursery() as nursery:
            address = await _start(config, nursery, clock, journal, stop)
            line = {"role": role, "name": name, "address": address, "pid": os.getpid()}
            print(json.dumps({"ready": True, **line}), flush=True)  # noqa: T201  # the interface
            await stop.wait()
        watchers.cancel_scope.cancel()


def _appender(path: str) -> Callable[[bytes], object] | None:
    """Unbuffered: a fact is in the kernel's hands before the reply it proves."""
    if not path:
        return None
    file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # open as long as the process lives
    return file.write


async def _start(
    config: NameServerConfig | BrokerConfig,
    nursery: trio.Nursery,
    clock: WallClock,
    journal: Journal,
    stop: trio.Event,
) -> str:
    disk: Disk = FileDisk(config.store) if config.store else MemoryDisk()
    serving = await nursery.start(_serve, config, disk, clock, journal, stop)
    return str(serving)


async def _serve(
    config: NameServerConfig | BrokerConfig,
    disk: Disk,
    clock: WallClock,
    journal: Journal,
    stop: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    # Each role imports only its own half: memory and start-up time are budgets.
    async with trio.open_nursery() as nursery:
        network = TcpNetwork(nursery)
        if isinstance(config, BrokerConfig):
            from emulator.broker.service import serve_broker  # noqa: PLC0415  # see above

            await serve_broker(
                config,
                network=network,
                disk=disk,
                clock=clock,
                rng=random.Random(),
                journal=journal,
                stop=stop,
                task_status=task_status,
            )
        else:
            from emulator.nameserver.service import serve_name_server  # noqa: PLC0415  # see above

            await serve_name_server(
                config,
                network=network,
                disk=disk,
                clock=clock,
                note=journal.note,
                stop=stop,
                task_status=task_status,
            )
        nursery.cancel_scope.cancel()


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop.set()


async def _stop_with_parent(stop: trio.Event) -> None:
    """Standard input is a pipe nobody writes to: it ends when its other end dies."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    async with stdin:
        async for _ in stdin:
            continue
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
