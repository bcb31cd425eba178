"""What was waiting for what when a run passed a limit, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from scenarios.running.director import Director
    from scenarios.running.stage import RunStage

KINDS_SHOWN = 8


def what_waits(stage: RunStage, director: Director) -> str:
    """The director, the faults that hold, what is to be sent and consumed, and the tasks."""
    parts = [f"the run was {director.doing}"]
    if faults := stage.faults_in_words():
        parts.append(f"these faults held: {'; '.join(faults)}")
    if work := stage.open_work():
        parts.append("; ".join(f"{name} had {text}" for name, text in work.items()))
    if backlogs := stage.watch.backlogs():
        parts.append("; ".join(f"{name} had {n} to consume" for name, n in backlogs.items()))
    parts.append(f"tasks: {_tasks()}")
    return ". ".join(parts)


def _tasks() -> str:
    root = trio.lowlevel.current_root_task()
    kinds: Counter[str] = Counter()
    tasks = [] if root is None else [root]
    while tasks:
        nurseries = tasks.pop().child_nurseries
        children = [child for nursery in nurseries for child in nursery.child_tasks]
        kinds.update(child.name.removeprefix("emulator.") for child in children)
        tasks += children
    shown = ", ".join(f"{count} {name}" for name, count in kinds.most_common(KINDS_SHOWN))
    others = len(kinds) - KINDS_SHOWN
    return f"{shown} and {others} other kinds" if others > 0 else shown
