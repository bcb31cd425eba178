"""The command line: ``rmqemu``, ``rocketmq-emulator``, ``python -m emulator``."""

from __future__ import annotations

import sys

# With these, ``up`` starts no nodes, or starts them otherwise than plainly.
_NOT_PLAIN = frozenset({"--embedded", "--help", "--journal", "--log", "-v"})
_EARLY_MAX = 16


def main() -> None:
    """The installed command.  What a command needs is imported when it runs."""
    early = _nodes_of(sys.argv[1:])
    if early:
        # They load while this process imports what reads arguments and draws.
        from emulator.cluster.spawning import start_early  # noqa: PLC0415  # see above

        start_early(early)
    from emulator.cli.app import run  # noqa: PLC0415  # see above

    run()


def _nodes_of(arguments: list[str]) -> list[str]:
    """The roles that ``up`` will surely ask for; nothing when that takes a closer look."""
    if arguments[:1] != ["up"] or any(a.partition("=")[0] in _NOT_PLAIN for a in arguments):
        return []
    text = "2"
    for here, after in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = here.partition("=")
        if name == "--brokers":
            text = value if equals else after
    brokers = int(text) if text.isdigit() else 0
    return ["nameserver", *["broker"] * brokers] if 0 < brokers <= _EARLY_MAX else []
