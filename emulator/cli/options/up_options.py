"""How many brokers ``up`` may start before its command line is parsed.

``up`` starts its nodes before it imports the parser, so that both load at the same time.  This
module lists the options that do not change how nodes start, and imports nothing.  The options
themselves are in ``server_arguments``; a test compares both.
"""

from __future__ import annotations

from collections.abc import Sequence

BROKERS_DEFAULT, RELEASE_DEFAULT, PORT_DEFAULT = 2, "4.9.7", 9876
EARLY_BROKERS_MAX = 100
BROKERS, SLAVES, CONTROLLERS = "--brokers", "--slaves", "--controllers"
# With these, nodes start as they would without them.
PLAIN_WITH_VALUE = frozenset(
    (
        BROKERS,
        SLAVES,
        CONTROLLERS,
        "--release",
        "--store",
        "--port",
        "--listen",
        "--advertise",
        "--set",
        "--control",
    )
)
PLAIN_SWITCHES = frozenset(
    ("--sync-master", "--acting-master", "--exit-on-death", "--exit-with-parent")
)


def brokers_to_start_early(arguments: Sequence[str]) -> int:
    """How many brokers and slaves ``up`` with *arguments* certainly starts as plain processes.

    0 if there are none, or if only the parser can decide: another option, a bad value.
    """
    counts = {BROKERS: BROKERS_DEFAULT, SLAVES: 0}
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if flag in PLAIN_SWITCHES:
            continue
        if flag not in PLAIN_WITH_VALUE:
            return 0
        if not equals:
            value = next(rest, "")
        if flag in counts:
            if not value.isdecimal():
                return 0
            counts[flag] = int(value)
    brokers = counts[BROKERS] * (1 + counts[SLAVES])
    return brokers if brokers <= EARLY_BROKERS_MAX else 0
