"""The command line: ``rmqemu``, ``rocketmq-emulator``, ``python -m emulator``."""

from __future__ import annotations


def main() -> None:
    """The installed command.  What a command needs is imported when it runs."""
    from emulator.cli.app import run  # noqa: PLC0415  # see above

    run()
