"""When the steps of a plan are done, as far as that is known before it runs."""

from __future__ import annotations

import msgspec

from scenarios.plan import Step


def timed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A step that follows one with a time has a time, too."""
    found: list[Step] = []
    now_ms: int | None = 0
    for step in steps:
        if step.at_ms is None and step.when is None and now_ms is not None:
            now_ms += step.after_ms
            step = msgspec.structs.replace(step, at_ms=now_ms, after_ms=0)  # noqa: PLW2901
        else:
            now_ms = step.at_ms
        found.append(step)
    return tuple(found)
