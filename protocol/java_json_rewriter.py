"""Lax text rewritten into strict JSON of the same value, in a few passes over all of it.

Read character by character, lax text takes thirty times as long as strict JSON.  Most of it
differs in a few ways only: fastjson's own escapes, single quotes, names without quotes, raw
control characters, commas too many.  These are rewritten here, and the strict reader does
the rest.  Whatever it then takes has the value that the tolerant reader would find; what it
refuses (comments, numbers as keys, semicolons …) is left to that one, as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate

from protocol.java_json_reader import DEPTH_MAX

# In this order: once pairs of backslashes are gone, each that is left begins an escape.
_ESCAPES = (
    (b"\\\\", b"\\u005c"),
    (b"\\'", b"\\u0027"),
    (b'\\"', b"\\u0022"),
    (b"\\x", b"\\u00"),  # two digits must follow: without them \u is refused, too
    (b"\\v", b"\\u000b"),
    (b"\\F", b"\\f"),
    *((b"\\%d" % digit, b"\\u000%d" % digit) for digit in range(8)),
)
_TOKENS = re.compile(
    rb"""
      (?P<strict> (?: "[^"\x00-\x1f]*" | [0-9.:+\-\[\]{}\ \t\r\n]+ | ,(?![ \t\r\n]*[,\]}]) )+ )
    | (?P<single> '[^']*' )
    | (?P<double> "[^"]*" )
    | (?P<name> [A-Za-z_$][A-Za-z0-9_$]* (?= [ \t\r\n]*: ) )
    | (?P<null> (?: NaN | undefined ) (?! [A-Za-z0-9_$] ) )
    | (?P<word> [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<comma> , [ \t\r\n]* (?= [,\]}] ) )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(code for code in range(256) if code not in _STEP)
_CONTROL = re.compile(rb"(?<!\\)[\x00-\x1f]")


class _NotRewritten(Exception):
    """The text has something else in it."""


def strict_forms(data: bytes) -> Iterator[bytes]:
    """Texts for the strict reader, the cheapest first.  *data* is UTF-8.

    None for a text that seems nested deeper than the tolerant reader goes.
    """
    if _depth(data) > DEPTH_MAX:
        return
    if b"\\" in data:
        for escape, strict in _ESCAPES:
            data = data.replace(escape, strict)
        yield data
    if b'"' not in data:
        data = data.replace(b"'", b'"')
        yield data
    with suppress(_NotRewritten):
        yield _TOKENS.sub(_strict_token, data)


def _depth(data: bytes) -> int:
    """How deep it is nested, if its strings hold no brackets."""
    brackets = data.translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _strict_token(token: re.Match[bytes]) -> bytes:
    kind, text = token.lastgroup, token.group()
    if kind == "name":
        return b'"%b"' % text
    if kind == "single":
        return b'"%b"' % _without_controls(text[1:-1].replace(b'"', b"\\u0022"))
    if kind == "double":
        return _without_controls(text)
    if kind == "other":
        raise _NotRewritten
    if kind == "null":
        return b"null"
    return b"" if kind == "comma" else text


def _without_controls(text: bytes) -> bytes:
    return _CONTROL.sub(lambda raw: b"\\u%04x" % ord(raw.group()), text)
