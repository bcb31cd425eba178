"""How errors about arguments read: the name, what it is, and what was given instead.

    topic is a str, not bytes b'orders'
    body is bytes, not str 'two cups': encode it, 'two cups'.encode()

One wording for messages, clients and their settings.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

SHOWN_CHARS_MAX: Final = 60


def not_a(name: str, wanted: str, value: object) -> str:
    """The sentence for an argument *name* that should be *wanted*, and is *value*."""
    return f"{name} is {wanted}, not {shown(value)}{_advice(value, wanted)}"


def shown(value: object) -> str:
    """The type and the value, cut where it is long; for None just that."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a broken __repr__ must not hide the error it is part of
        text = ""
    if len(text) > SHOWN_CHARS_MAX:
        text = f"{text[:SHOWN_CHARS_MAX]}…"
    return f"{type(value).__name__} {text}".rstrip()


def _advice(value: object, wanted: str) -> str:
    if wanted.startswith("bytes") and isinstance(value, str):
        return f": encode it, {value[:20]!r}{'…' if len(value) > 20 else ''}.encode()"
    if wanted.startswith("a str") and isinstance(value, bytes):
        return f": decode it, {value[:20]!r}{'…' if len(value) > 20 else ''}.decode()"
    if isinstance(value, dt.datetime):
        return ": int(when.timestamp() * 1000)"
    if isinstance(value, dt.timedelta):
        return ": int(duration.total_seconds() * 1000)"
    return ""
