"""The command line: ``rmqemu``, ``rocketmq-emulator``, ``python -m rocketmq_emulator``."""

from __future__ import annotations

import signal
import sys

from rocketmq_emulator.cli.options.up_options import brokers_to_start_early


def main() -> None:
    """The installed command.  What a command needs is imported when it runs."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while code loads, Ctrl-C shows no traceback
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["up"] and brokers_to_start_early(arguments):
        # Nodes load while this process imports what reads arguments and draws.
        from rocketmq_emulator.processes.spawning import start_fork_server  # noqa: PLC0415  # see above

        start_fork_server()
    from rocketmq_emulator.cli.app import run  # noqa: PLC0415  # see above

    run()
