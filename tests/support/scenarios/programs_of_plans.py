"""Client programs for plans of tests, as ``tests.support.scenarios.programs_of_plans:dies``."""

from __future__ import annotations

import os
import signal
import sys

import trio


async def dies(_process: object, _namesrv: str) -> None:
    await trio.sleep(1)
    os.kill(os.getpid(), signal.SIGSEGV)


async def hangs(_process: object, _namesrv: str) -> None:
    while True:
        pass


async def says(_process: object, _namesrv: str) -> None:
    print("this is no answer")  # noqa: T201
    print("nor this", file=sys.stderr)  # noqa: T201
