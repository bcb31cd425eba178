"""Reading options: every one by name, and for a name there is not the nearest one there is.

Spark hands over texts under names without capitals.  Users of Spark's Kafka source guess by
habit, so its names are answered with ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from pipeline.source.errors import BadOption

FROM_KAFKA = {  # what a user of Spark's Kafka source tries first
    "subscribe": "topic",
    "assign": "topic",
    "kafka.bootstrap.servers": "namesrv",
    "bootstrap.servers": "namesrv",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "startingoffsetsbytimestamp": "startingOffsets",
    "endingoffsetsbytimestamp": "endingOffsets",
    "maxrecordsperpartition": "minPartitions",
    "namesrvaddr": "namesrv",
    "nameserver": "namesrv",
    "consumergroup": "group",
    "producergroup": "group",
}
BOOLEANS = {"true": True, "false": False}
NAMESRV_PORT = 9876


def check_names(
    given: Iterable[str], known: Iterable[str], who: str, for_spark: frozenset[str]
) -> None:
    """Raises ``BadOption`` for a name that is none of *known*; *for_spark* are left to Spark."""
    spelt = {name.lower(): name for name in known}
    for name in given:
        low = name.lower()
        if low in spelt or low in for_spark:
            continue
        meant = spelt.get(FROM_KAFKA.get(low, "").lower())
        near = [meant] if meant else [spelt[n] for n in difflib.get_close_matches(low, spelt, 1)]
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise BadOption(f"{who} has no option {name!r}: {advice}")


def whole(options: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """The option as a number of at least *least*.  Raises ``BadOption``."""
    text = options.get(name.lower())
    if text is None:
        return default
    if not (text.strip().isascii() and text.strip().isdigit()) or int(text) < least:
        raise BadOption(f"{name} is a whole number of at least {least}, not {text!r}")
    return int(text)


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """The option as a boolean.  Raises ``BadOption``."""
    text = options.get(name.lower())
    if text is None:
        return default
    found = BOOLEANS.get(text.strip().lower())
    if found is None:
        raise BadOption(f"{name} is true or false, not {text!r}")
    return found


def addresses(options: Mapping[str, str]) -> tuple[str, ...]:
    """The NameServers, as upstream writes them: ``host:port;host:port``.  Raises ``BadOption``."""
    text = options.get("namesrv", "")
    found = []
    for word in filter(None, (part.strip() for part in text.replace(",", ";").split(";"))):
        host, colon, port = word.rpartition(":")
        if not colon:
            raise BadOption(
                f"namesrv is host:port, not {word!r}: did you mean {word}:{NAMESRV_PORT}?"
            )
        if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise BadOption(f"namesrv is host:port, not {word!r}")
        found.append(word)
    if not found:
        raise BadOption(f'option("namesrv", "host:{NAMESRV_PORT}") is missing: the NameServers')
    return tuple(found)


def topics(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics, separated by commas; each once."""
    words = (part.strip() for part in options.get("topic", "").split(","))
    return tuple(dict.fromkeys(filter(None, words)))
