"""The options of ``up`` as data, for the command that declares them and for who reads first.

``up`` starts its nodes before it loads what parses a command line: they load meanwhile.
``brokers_to_start_early`` reads what it needs for that from the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

EARLY_BROKERS_MAX = 100


class UpOption(NamedTuple):
    """``is_plain``: with it, nodes start as they would without it."""

    flags: tuple[str, ...]
    default: Any
    takes_value: bool = True
    is_plain: bool = True


BROKERS = UpOption(("--brokers",), 2)
RELEASE = UpOption(("--release",), "4.9.7")
STORE = UpOption(("--store",), "")
PORT = UpOption(("--port",), 9876)
LISTEN = UpOption(("--listen",), "127.0.0.1")
ADVERTISE = UpOption(("--advertise",), "")
SETS = UpOption(("--set",), None)
EMBEDDED = UpOption(("--embedded",), False, takes_value=False, is_plain=False)
WITH_LINKS = UpOption(("--with-links",), False, takes_value=False, is_plain=False)
CONTROL = UpOption(("--control",), "")
JOURNAL = UpOption(("--journal",), "", is_plain=False)
EXIT_ON_DEATH = UpOption(("--exit-on-death",), False, takes_value=False)
LOG = UpOption(("--log", "-v"), False, takes_value=False, is_plain=False)
LOG_FORMAT = UpOption(("--log-format",), "console", is_plain=False)

OPTIONS = (
    BROKERS,
    RELEASE,
    STORE,
    PORT,
    LISTEN,
    ADVERTISE,
    SETS,
    EMBEDDED,
    WITH_LINKS,
    CONTROL,
    JOURNAL,
    EXIT_ON_DEATH,
    LOG,
    LOG_FORMAT,
)
_BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}


def brokers_to_start_early(arguments: Sequence[str]) -> int:
    """How many brokers ``up`` with these *arguments* will surely want as plain processes.

    0 when there are none, or when that takes a closer look: another option, a bad value.
    """
    brokers = BROKERS.default
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        option = _BY_FLAG.get(flag)
        if option is None or not option.is_plain:
            return 0
        if option.takes_value and not equals:
            value = next(rest, "")
        if option is BROKERS:
            brokers = int(value) if value.isdecimal() else 0
    return brokers if brokers <= EARLY_BROKERS_MAX else 0
