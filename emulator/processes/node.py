"""One role as one operating-system process, whose log never blocks it.

    python -m rocketmq_emulator.processes.node broker '{"name": …}'

The second argument is the role's config struct as JSON, or ``-``: then the node's name and the
config are the first line of standard input, which can arrive after all code is loaded.  Imports
are kept few (no terminal library), so that three servers start in a fraction of a second and use
little memory.  When the node is ready it writes a line of JSON to standard output; errors of the
environment (a port in use, an unwritable store) are one line on standard error.

Options: ``--journal FILE`` appends facts as JSON Lines, and rotates the file (FILE.1 …);
``--log JSON`` (a ``LogSettings``) selects the facts on standard error, by default warnings and
errors; lines that are not read there are dropped and counted, and the file is polled before each
write, since other processes may share it.  ``--controller JSON`` serves a controller too, as a
RocketMQ NameServer can; its facts are in the same journal.  ``--with-parent`` ends the node with
its standard input, so that it does not outlast its parent, and reports the progress of reading a
large store.  A second signal ends it at once.  ``--skew-ms N`` sets its wall clock wrong before
its first fact.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import resource
import select
import sys
import traceback
from functools import partial

import msgspec
import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.files import FileDisk
from rocketmq_emulator.disk.line_file import LineFile
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.facts import FactsLeftOut, LogRecovering, TimersRecovering
from rocketmq_emulator.facts.journal import Entry, Journal
from rocketmq_emulator.facts.logs import WARNINGS, LogSettings, log_to
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.processes.process_errors import first_error, user_message
from rocketmq_emulator.processes.roles import (
    CONFIG_OF_ROLE,
    RoleConfig,
    import_role,
    role_of,
    serve_role,
)
from rocketmq_emulator.processes.starting import (
    NodeProgress,
    left_out_line,
    process_age_s,
)
from rocketmq_emulator.processes.stopping import calling_on_stop
from rocketmq_emulator.settings.config import BrokerConfig, ControllerConfig

_PIECE_BYTES = select.PIPE_BUF  # a pipe with room accepts that much without blocking


class LogOutput:
    """Writes to the open file descriptor *file* without blocking; None drops everything."""

    def __init__(self, file: int | None) -> None:
        self._file = file
        self._room = select.poll()
        if file is not None:
            self._room.register(file, select.POLLOUT)
        self.dropped_lines = 0  # since the last line that was written
        self._is_torn = False  # the last line was written in part

    def write(self, text: str) -> None:
        """Write whole lines if there is room; never blocks, never raises."""
        if self._put(self._remark() + text):
            self.dropped_lines = 0
        else:
            self.dropped_lines += text.count("\n")

    def close(self) -> None:
        """Write the count of dropped lines, if there is room; the file stays open."""
        if self.dropped_lines:
            self.write("")

    def _remark(self) -> str:
        count = self.dropped_lines
        return f"{count} lines were left out here, because nobody read the log\n" if count else ""

    def _put(self, text: str) -> bool:
        data = (b"\n" if self._is_torn else b"") + text.encode("utf-8", "replace")
        for at in range(0, len(data), _PIECE_BYTES):
            piece = data[at : at + _PIECE_BYTES]
            written_bytes = self._put_piece(piece)
            if written_bytes < len(piece):
                self._is_torn |= at + written_bytes > 0
                return False
        self._is_torn = False
        return True

    def _put_piece(self, piece: bytes) -> int:
        if self._file is None or not self._has_room():
            return 0
        try:
            return os.write(self._file, piece)
        except OSError:  # its reader has closed, or it is a file on a full disk
            return 0

    def _has_room(self) -> bool:
        return any(events & select.POLLOUT for _, events in self._room.poll(0))


# The process --------------------------------------------------------------------------


FAILED, BAD_USE = 1, 2
PREFIX = "rmqemu: "  # before errors; a parent writes its own
LINE_BYTES_MAX = 1024 * 1024


def main() -> int:
    """Serve the role that the command line names; returns the exit code."""
    role, text, *options = sys.argv[1:]
    import_role(role)
    name = ""
    if text == "-":
        name, _, text = _first_line().partition(" ")
        if not text:
            return 0  # the parent has closed the pipe
    try:
        config = msgspec.json.decode(text, type=CONFIG_OF_ROLE[role])
        beside = msgspec.json.decode(
            _option(options, "--controller", "null"), type=ControllerConfig | None
        )
        log = msgspec.json.decode(_option(options, "--log", "{}"), type=LogSettings)
    except (msgspec.MsgspecError, ValueError) as error:
        _standard_error().write(f"{PREFIX}{role}: {error}\n")
        return BAD_USE
    journal = _option(options, "--journal", "")
    _allow_open_files()
    skew_ms = int(_option(options, "--skew-ms", "0"))
    with_parent = "--with-parent" in options
    return run(config, journal, log, name, with_parent=with_parent, skew_ms=skew_ms, beside=beside)


def run(
    config: RoleConfig,
    journal: str = "",
    log: LogSettings = WARNINGS,
    name: str = "",
    *,
    with_parent: bool = False,
    skew_ms: int = 0,
    beside: ControllerConfig | None = None,
) -> int:
    """Serve in this process until a signal; returns the exit code.

    *beside* is the config of a controller in the same process.

    Without a *name*, as of a node of a cluster, its name in the journal is that of its role.
    """
    errors, name = _standard_error(), name or name_of(config)
    try:
        main = partial(
            _serve_until_stopped, name, with_parent=with_parent, skew_ms=skew_ms, beside=beside
        )
        left_out = trio.run(main, config, journal, log, errors)
    except Exception as error:  # noqa: BLE001  # bugs are written with their traceback
        text = _text_of_end(name, first_error(error))
        errors.write(f"{text}\n" if with_parent else f"{PREFIX}{text}\n")
        return FAILED
    finally:
        errors.close()
    # A parent reports what all of its nodes left out; their exit codes are about their work.
    return FAILED if left_out and not with_parent else 0


def _allow_open_files() -> None:
    """Raise the limit to the user's maximum, as a JVM does, for connections and segments."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):  # some systems do not grant their limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def name_of(config: RoleConfig) -> str:
    """The name of a node that is in no cluster."""
    if isinstance(config, BrokerConfig):
        return config.name
    return f"controller-{config.self_id}" if isinstance(config, ControllerConfig) else "namesrv"


def _text_of_end(name: str, error: BaseException) -> str:
    text = user_message(error)
    if text is not None:
        return f"{name}: {text}"
    return "".join(traceback.format_exception(error)).rstrip()


def _option(options: list[str], name: str, default: str) -> str:
    return options[options.index(name) + 1] if name in options else default


def _standard_error() -> LogOutput:
    """Standard error; if it is closed, its number may be another file's, so nothing is written."""
    return LogOutput(None if sys.stderr is None else sys.stderr.fileno())


def _first_line() -> str:
    """The first line, read byte by byte: bytes after it must stay in the pipe."""
    line = bytearray()
    while len(line) < LINE_BYTES_MAX and (byte := os.read(0, 1)):
        if byte == b"\n":
            return line.decode()
        line += byte
    return ""


async def _serve_until_stopped(
    name: str,
    config: RoleConfig,
    journal_path: str,
    log: LogSettings,
    errors: LogOutput,
    *,
    with_parent: bool,
    skew_ms: int,
    beside: ControllerConfig | None,
) -> int:
    """Serve until a signal, or the end of standard input, sets *stop*.

    Returns how many facts a full disk left out of the journal.
    """
    stop = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def ask_to_stop() -> None:
        with contextlib.suppress(trio.RunFinishedError):  # the node is already ending
            token.run_sync_soon(stop.set)

    with calling_on_stop(ask_to_stop, with_parent=with_parent):
        clock = WallClock.of_this_machine()
        clock.skew_ms = skew_ms
        file = _journal_file(journal_path, config)
        served = [(config, Journal.to_file(name, clock, file))]
        if beside is not None:
            served.append((beside, Journal.to_file(name_of(beside), clock, file)))
        for _, journal in served:
            log_to(journal, errors.write, log)
            if with_parent:
                _say_progress_of(journal)
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as starting:
                nursery.start_soon(_cancel_at, stop, starting)
                addresses = [
                    await nursery.start(_serve, served_config, clock, journal, stop)
                    for served_config, journal in served
                ]
            if starting.cancelled_caught:
                return sum(journal.left_out for _, journal in served)
            _say_ready(name, config, *addresses)
            _freeze_what_was_imported()
        for _, journal in served:
            journal.close()
        left_out = sum(journal.left_out for _, journal in served)
        if with_parent and left_out:
            _say_left_out(left_out)
        return left_out


def _say_ready(name: str, config: RoleConfig, address: str, controller: str = "") -> None:
    line = {"role": role_of(config), "name": name, "address": address, "pid": os.getpid()}
    beside = {"controller": controller} if controller else {}
    age = {"ready_s": round(process_age_s(), 3)}
    print(json.dumps({"ready": True, **line, **beside, **age}), flush=True)  # noqa: T201  # the interface


async def _cancel_at(stop: trio.Event, starting: trio.CancelScope) -> None:
    """Cancel the start at *stop*: a node that reads a large log need not finish first."""
    await stop.wait()
    starting.cancel()


def _say_progress_of(journal: Journal) -> None:
    journal.listen(_say_progress, (LogRecovering, TimersRecovering))
    _say_first_left_out(journal)


def _say_progress(entry: Entry) -> None:
    assert isinstance(entry.fact, LogRecovering | TimersRecovering)
    print(NodeProgress.of(entry.fact).line(), flush=True)  # noqa: T201  # the interface


def _say_left_out(count: int) -> None:
    print(left_out_line(count), flush=True)  # noqa: T201  # the interface


def _say_first_left_out(journal: Journal) -> None:
    """Tell the parent when the first fact is left out; it may not read more while a node runs."""

    def show(entry: Entry) -> None:
        assert isinstance(entry.fact, FactsLeftOut)
        journal.unlisten(show)
        _say_left_out(entry.fact.missing_count)

    journal.listen(show, (FactsLeftOut,))


def _freeze_what_was_imported() -> None:
    """Exclude the imported objects, which live as long as the node, from full collections."""
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


def _journal_file(path: str, config: RoleConfig) -> LineFile | None:
    if not path:
        return None
    return LineFile(path, bytes_max=config.journal_bytes_max, files_max=config.journal_files_max)


if __name__ == "__main__":
    sys.exit(main())
