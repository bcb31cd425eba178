"""fastjson's dialect (placeholder until the whole of it is here)."""

from __future__ import annotations

from typing import Any

import msgspec


def read(data: bytes) -> Any:
    return msgspec.json.decode(data)


def write(value: Any) -> bytes:
    return msgspec.json.encode(value)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
