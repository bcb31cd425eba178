"""The language of a peer: a name in JSON headers, a byte in ROCKETMQ headers.

Upstream: LanguageCode.
"""

from __future__ import annotations

import typing
from typing import Literal, TypeAlias

from protocol.versions import NODE_JS_KNOWN, Release

Language: TypeAlias = Literal[
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
]
NewLanguage: TypeAlias = Literal[Language, "NODE_JS"]  # what 5.3.2 knows

LANGUAGES: tuple[Language, ...] = typing.get_args(Language)

LANGUAGE_CODES: dict[str, int] = {name: code for code, name in enumerate((*LANGUAGES, "NODE_JS"))}


def language_name(code: int, release: Release) -> NewLanguage | None:
    """The name, or None for a byte that *release* does not know."""
    if 0 <= code < len(LANGUAGES):
        return LANGUAGES[code]
    return "NODE_JS" if code == len(LANGUAGES) and release >= NODE_JS_KNOWN else None
