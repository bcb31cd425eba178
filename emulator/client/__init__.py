"""The client: Producer and PushConsumer, by upstream's rules, for any RocketMQ.

    from emulator.client import Message, Producer, PushConsumer

Names are loaded when they are asked for, so that its parts can be imported one by one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.client.api import *  # noqa: F403  # for type checkers; see __getattr__


def __getattr__(name: str) -> Any:
    api = importlib.import_module("emulator.client.api")
    if name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"emulator.client has no {name}")
