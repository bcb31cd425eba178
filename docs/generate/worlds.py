"""The table of docs/worlds.md: every verb, its meaning, and the worlds that have it.

In the virtual world verbs that take time are coroutines: the table says which.
"""

from __future__ import annotations

import inspect

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.cluster.world import CAPABILITIES, VERBS, Verb, World, WorldKind
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.text.docstrings import docstring_of

PAGE = DOCS / "worlds.md"
WORLDS: tuple[WorldKind, ...] = ("processes", "embedded", "virtual")


def verbs_text() -> str:
    head = ["| verb | effect | " + " | ".join(WORLDS) + " |", "|---|---|" + "---|" * 3]
    return "\n".join([*head, *map(_row, VERBS)])


def _row(verb: Verb) -> str:
    paragraphs = docstring_of(getattr(World, verb)).split("\n\n")
    meaning = " ".join(" ".join(paragraphs).split()).replace("``", "`")
    has = (_in_world(verb, world) for world in WORLDS)
    return f"| `{verb}` | {meaning} | {' | '.join(has)} |"


def _in_world(verb: Verb, world: WorldKind) -> str:
    if world not in CAPABILITIES[verb]:
        return "–"
    takes_time = inspect.iscoroutinefunction(getattr(VirtualCluster, verb))
    return "awaited" if world == "virtual" and takes_time else "yes"


if __name__ == "__main__":
    write_section(PAGE, "verbs", verbs_text())
