"""While a scenario is recorded, its code reads no clock, no chance and no outer world.

It would get an answer that has nothing to do with the run.  The interpreter says which
function the scenario's own file calls (``sys.setprofile``); what is in the table is refused at
the call.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from scenarios.recording.clock import NotRecordable

REFUSED: Mapping[str, str] = {  # by top module, with what to do instead
    "trio": "use run.sleep and run.until",
    "asyncio": "use run.sleep and run.until",
    "time": "the time of the run is not known yet; run.sleep moves its clock",
    "datetime": "the time of the run is not known yet; run.sleep moves its clock",
    "random": "chance belongs to the run and its seed: jitter_ms, fails, weather",
    "socket": "nothing runs yet",
    "subprocess": "nothing runs yet",
    "threading": "nothing runs yet",
    "requests": "nothing runs yet",
    "rocketmq_emulator": "nothing runs yet; a client program of your own is run.program",
}
READS_THE_CLOCK = ("now", "today", "utcnow")


@contextmanager
def only_recorded(file: str) -> Iterator[None]:
    """Inside, code of *file* that calls what cannot be recorded raises ``NotRecordable``."""

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename == file:
            _check(_module_of(called), getattr(called, "__qualname__", ""), called)
        elif event == "call" and _is_called_by(frame, file):
            owner = frame.f_locals.get("self")
            _check(frame.f_globals.get("__name__", ""), frame.f_code.co_name, owner)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def _is_called_by(frame: FrameType, file: str) -> bool:
    caller = frame.f_back
    return caller is not None and caller.f_code.co_filename == file != frame.f_code.co_filename


def _check(module: str, function: str, owner: Any) -> None:
    top = module.partition(".")[0]
    if (advice := REFUSED.get(top)) is None or module == "rocketmq_emulator.scenarios":
        return
    owner = getattr(owner, "__self__", owner)
    if top == "random" and isinstance(owner, random.Random) and owner is not random._inst:  # noqa: SLF001
        return  # one with a seed of its own gives the same each time
    if top == "datetime" and function.rpartition(".")[2] not in READS_THE_CLOCK:
        return
    sys.setprofile(None)
    raise NotRecordable(f"{function} of {top} cannot be recorded: {advice}")


def _module_of(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    module = getattr(called, "__module__", None)
    if module is None and owner is not None:
        module = owner.__module__ if isinstance(owner, type) else type(owner).__module__
    return module or ""
