"""Which language a peer says it is written in: a name in JSON, a byte in ROCKETMQ headers."""

from __future__ import annotations

LANGUAGE_CODES = {
    "JAVA": 0,
    "CPP": 1,
    "DOTNET": 2,
    "PYTHON": 3,
    "DELPHI": 4,
    "ERLANG": 5,
    "RUBY": 6,
    "OTHER": 7,
    "HTTP": 8,
    "GO": 9,
    "PHP": 10,
    "OMS": 11,
    "RUST": 12,
    "NODE_JS": 13,  # 5.x only
}
_NAMES = {code: name for name, code in LANGUAGE_CODES.items()}


def language_name(code: int) -> str | None:
    """The name, or None for a byte nobody has claimed."""
    return _NAMES.get(code)
