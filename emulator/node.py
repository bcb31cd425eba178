"""One role as one operating-system process: ``python -m emulator.node broker '{"name": …}'``.

The second argument is the role's config struct as JSON, or ``-``: then it is the first
line of standard input, and may come when everything is loaded already.  Imports are a
budget here: no terminal library, so that three servers are up in a fraction of a second
and small.  A line of JSON on standard output says when the node is ready; errors of the
world (a port in use, an unwritable store) are one line on standard error.

Options after it: ``--journal FILE`` appends facts as JSON Lines, and begins anew when it is long
(FILE.1 …); ``--log JSON`` (a ``LogSettings``) says which facts are shown on standard error, and
how: without it warnings and errors.  Lines that nobody reads there are left out and counted.
``--with-parent`` ends the node when its standard input ends, so that no orphan outlives who
started it, and says on standard output how far it is with a large store.  A second signal
ends it at once.  ``--skew-ms N`` sets its wall clock wrong from its first fact on.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Callable
from functools import partial

import msgspec
import trio

from emulator.clock import WallClock
from emulator.cluster.ending import end_when_told
from emulator.cluster.log_output import LogOutput
from emulator.cluster.process_age import process_age_s
from emulator.cluster.process_errors import first_error, plain_text
from emulator.cluster.roles import CONFIG_OF_ROLE, RoleConfig, import_role, serve_role
from emulator.cluster.starting import NodeProgress
from emulator.config import BrokerConfig
from emulator.disk.files import FileDisk
from emulator.disk.line_file import LineFile
from emulator.disk.memory import MemoryDisk
from emulator.disk.port import Disk
from emulator.facts import LogRecovering, TimersRecovering
from emulator.journal import Entry, Journal
from emulator.logs import WARNINGS, LogSettings, log_to
from emulator.net.tcp import TcpNetwork

FAILED, BAD_USE = 1, 2
PREFIX = "rmqemu: "  # of the errors of a command; a parent has its own
LINE_BYTES_MAX = 1024 * 1024


def main() -> int:
    """Serve the role that the command line names; the exit code."""
    role, text, *options = sys.argv[1:]
    import_role(role)
    if text == "-" and not (text := _first_line()):
        return 0  # the parent wants no node any more
    try:
        config = msgspec.json.decode(text, type=CONFIG_OF_ROLE[role])
        log = msgspec.json.decode(_option(options, "--log", "{}"), type=LogSettings)
    except (msgspec.MsgspecError, ValueError) as error:
        _standard_error().write(f"{PREFIX}{role}: {error}\n")
        return BAD_USE
    journal = _option(options, "--journal", "")
    _allow_open_files()
    skew_ms = int(_option(options, "--skew-ms", "0"))
    return run(config, journal, log, with_parent="--with-parent" in options, skew_ms=skew_ms)


def run(
    config: RoleConfig,
    journal: str = "",
    log: LogSettings = WARNINGS,
    *,
    with_parent: bool = False,
    skew_ms: int = 0,
) -> int:
    """Serve in this process until a signal; the exit code."""
    errors = _standard_error()
    try:
        main = partial(_serve_until_stopped, with_parent=with_parent, skew_ms=skew_ms)
        trio.run(main, config, journal, log, errors)
    except Exception as error:  # noqa: BLE001  # bugs keep their traceback
        text = _text_of_end(name_of(config), first_error(error))
        errors.write(f"{text}\n" if with_parent else f"{PREFIX}{text}\n")
        return FAILED
    finally:
        errors.close()
    return 0


def _allow_open_files() -> None:
    """As many as this user may have, as a JVM does: each connection and each segment is one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit they do not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def name_of(config: RoleConfig) -> str:
    """The node's name in its journal."""
    return config.name if isinstance(config, BrokerConfig) else "namesrv"


def _text_of_end(name: str, error: BaseException) -> str:
    text = plain_text(error)
    if text is not None:
        return f"{name}: {text}"
    return "".join(traceback.format_exception(error)).rstrip()


def _option(options: list[str], name: str, default: str) -> str:
    return options[options.index(name) + 1] if name in options else default


def _standard_error() -> LogOutput:
    """It may be closed, and then its number may be that of another file by now."""
    return LogOutput(None if sys.stderr is None else sys.stderr.fileno())


def _first_line() -> str:
    """Read byte by byte: what follows the line is not ours to take."""
    line = bytearray()
    while len(line) < LINE_BYTES_MAX and (byte := os.read(0, 1)):
        if byte == b"\n":
            return line.decode()
        line += byte
    return ""


async def _serve_until_stopped(
    config: RoleConfig,
    journal_path: str,
    log: LogSettings,
    errors: LogOutput,
    *,
    with_parent: bool,
    skew_ms: int,
) -> None:
    """Until a signal, or the end of standard input, sets *stop*."""
    stop = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def ask_to_stop() -> None:
        with contextlib.suppress(trio.RunFinishedError):  # we end already
            token.run_sync_soon(stop.set)

    with end_when_told(ask_to_stop, with_parent=with_parent):
        clock = WallClock.of_this_machine()
        clock.skew_ms = skew_ms
        journal = Journal(name_of(config), clock, _appender(journal_path, config))
        log_to(journal, errors.write, log)
        if with_parent:
            journal.listen(_say_progress, (LogRecovering, TimersRecovering))
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as starting:
                nursery.start_soon(_cancel_at, stop, starting)
                address = await nursery.start(_serve, config, clock, journal, stop)
            if starting.cancelled_caught:
                return
            role = "broker" if isinstance(config, BrokerConfig) else "nameserver"
            line = {"role": role, "name": name_of(config), "address": address, "pid": os.getpid()}
            age = {"ready_s": round(process_age_s(), 3)}
            print(json.dumps({"ready": True, **line, **age}), flush=True)  # noqa: T201  # the interface
            _freeze_what_was_imported()


async def _cancel_at(stop: trio.Event, starting: trio.CancelScope) -> None:
    """A node that reads a large log need not finish that to stop."""
    await stop.wait()
    starting.cancel()


def _say_progress(entry: Entry) -> None:
    assert isinstance(entry.fact, LogRecovering | TimersRecovering)
    print(NodeProgress.of(entry.fact).line(), flush=True)  # noqa: T201  # the interface


def _freeze_what_was_imported() -> None:
    """What was imported lives as long as the node: full collections need not walk it again."""
    gc.collect()
    gc.freeze()


async def _serve(
    config: RoleConfig,
    clock: WallClock,
    journal: Journal,
    stop: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    disk: Disk = MemoryDisk()
    if config.store:
        disk = FileDisk(config.store, trio.lowlevel.current_trio_token().run_sync_soon)
    with contextlib.closing(disk):
        async with trio.open_nursery() as nursery:
            await serve_role(
                config,
                network=TcpNetwork(nursery, journal.note),
                disk=disk,
                clock=clock,
                rng=random.Random(),
                journal=journal,
                stop=stop,
                task_status=task_status,
            )
            nursery.cancel_scope.cancel()


def _appender(path: str, config: RoleConfig) -> Callable[[bytes], object] | None:
    if not path:
        return None
    return LineFile(
        path, bytes_max=config.journal_bytes_max, files_max=config.journal_files_max
    ).append


if __name__ == "__main__":
    sys.exit(main())
