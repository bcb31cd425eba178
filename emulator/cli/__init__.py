"""The command line: ``rmqemu``, ``rocketmq-emulator``, ``python -m rocketmq_emulator``."""

from __future__ import annotations

import signal
import sys

from rocketmq_emulator.cli.options.up_options import brokers_to_start_early


def main() -> None:
    """Run the installed command.  The modules of a command are imported when it runs."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during imports shows no traceback
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["up"] and brokers_to_start_early(arguments):
        # The nodes load while this process imports the parser and the screens.
        from rocketmq_emulator.processes.spawning import start_fork_server  # noqa: PLC0415  # see above

        start_fork_server()
    from rocketmq_emulator.cli.app import run  # noqa: PLC0415  # see above

    run()
