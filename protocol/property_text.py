"""Single properties read from, and removed from, a property block without decoding it all.

A broker looks at two or three properties of each message it stores; decoding the whole
block for that would cost more than storing it.
"""

from __future__ import annotations

from protocol.properties import NAME_END, PAIR_END


def property_of(text: str, name: str) -> str | None:
    """The value of *name*, the last one if it is there twice; None if absent or empty."""
    at = _find(text, name)
    if at < 0:
        return None
    start = at + len(name) + 1
    end = text.find(PAIR_END, start)
    return (text[start:] if end < 0 else text[start:end]) or None


def without_property(text: str, name: str) -> str:
    """The block without any pair called *name*."""
    while (at := _find(text, name)) >= 0:
        end = text.find(PAIR_END, at)
        text = text[:at].removesuffix(PAIR_END) if end < 0 else text[:at] + text[end + 1 :]
    return text


def with_property(text: str, name: str, value: str, *, trailing: bool) -> str:
    """The block with one more pair at its end."""
    between = "" if not text or text.endswith(PAIR_END) else PAIR_END
    return f"{text}{between}{name}{NAME_END}{value}{PAIR_END if trailing else ''}"


def _find(text: str, name: str) -> int:
    key = name + NAME_END
    at = text.rfind(key)
    while at > 0 and text[at - 1] != PAIR_END:
        at = text.rfind(key, 0, at)
    return at
