"""The sender's release (as an ordinal) and language, which every header states.

Upstream numbers its releases by their place in one long enum that was filled in
advance: a snapshot and a release for each patch, ten patches a minor, ten minors a
major from 4.0 on.  So the ordinal is arithmetic, and only the years before 4.0 need a
table.  Upstream: MQVersion.Version.

A language is a name in JSON headers and a byte in ROCKETMQ headers.  Upstream: LanguageCode.
"""

from __future__ import annotations

import functools
import typing
from typing import Literal, TypeAlias

import msgspec

HIGHER_VERSION = 612  # one after V5_9_9; larger ordinals mean the same

_BEFORE_FOUR = (  # (minor of 3.x, first patch, its ordinal); later patches follow in steps of 2
    (0, 1, 17),
    (1, 0, 47),
    (2, 0, 67),
    (3, 1, 87),
    (4, 1, 105),
    (5, 1, 123),
    (6, 1, 141),
    (7, 1, 159),
    (8, 1, 177),
    (9, 1, 195),
)
_BETAS = (
    "V3_0_0_SNAPSHOT",
    "V3_0_0_ALPHA1",
    *(f"V3_0_0_BETA{n}" for n in range(1, 6)),
    *(f"V3_0_0_BETA{n}{kind}" for n in range(6, 10) for kind in ("_SNAPSHOT", "")),
    "V3_0_0_FINAL",
)


class Release(msgspec.Struct, frozen=True, order=True):
    """A release number that compares as numbers do: 4.9.7 is before 4.10.0."""

    major: int
    minor: int
    patch: int

    @classmethod
    @functools.lru_cache(maxsize=64)
    def parse(cls, text: str) -> Release:
        """``Release.parse("4.9.7")``.  Raises ``ValueError``."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise ValueError(f"a release looks like 4.9.7 or 5.3.3, not {text!r}")
        return cls(*(int(part) for part in parts))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def version(self) -> int:
        """The ordinal this release (4.0.0 or later) writes into every header it sends."""
        return 213 + 20 * (10 * (self.major - 4) + self.minor) + 2 * self.patch


R_4_9_7 = Release(4, 9, 7)
R_5_0_0 = Release(5, 0, 0)
R_5_3_3 = Release(5, 3, 3)

# Releases that changed the bytes; changes of behaviour are in emulator/settings/releases.py.
STRICT_UTF8 = Release(5, 0, 0)  # 4.9 puts U+FFFD where a JSON header is no UTF-8
NODE_JS_KNOWN = Release(5, 3, 2)  # the language of a client
ACL_CODES_REUSED = Release(5, 0, 0)  # 209 to 211 mean something else since then
ATTRIBUTES_PACKED = Release(5, 0, 0)  # a topic's one-line form ends with its attributes
MAPPINGS_PACKED = Release(5, 0, 0)  # a compressed registration ends with queue mappings
RECALL_KNOWN = Release(5, 3, 2)  # RECALL_MESSAGE
TOPIC_LISTS_KNOWN = Release(5, 3, 0)  # UPDATE_AND_CREATE_TOPIC_LIST
GROUP_LISTS_KNOWN = Release(5, 3, 1)  # UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
BROKER_IDS_APPLIED = Release(5, 1, 1)  # controllers assign ids; before, they knew addresses
BATCH_ACK_KNOWN = Release(5, 1, 3)  # BATCH_ACK_MESSAGE
SUB_AFTER_HAS_TIME = Release(4, 8, 0)  # and group: the trace of a listener that has returned
TEXT_SEARCH_KNOWN = Release(5, 1, 3)  # CONTAINS, STARTSWITH and ENDSWITH of SQL92 filters
FILTER_SERVERS_UNKNOWN = Release(4, 9, 6)  # REGISTER_FILTER_SERVER, but in 5.0.0 and 5.1.0

# Releases that added members to bodies; those added by 5.0.0 have no constant.
PULL_OFFSETS_SHOWN = Release(5, 1, 0)  # OffsetWrapper, ConsumeStatsList
GROUPS_KEEP_SUBSCRIPTIONS = Release(5, 1, 1)  # SubscriptionGroupConfig.subscriptionDataSet
HEARTBEATS_HAVE_FINGERPRINTS = Release(5, 1, 3)  # HeartbeatData: a fingerprint, without_sub
GROUPS_HAVE_ATTRIBUTES = Release(5, 1, 3)  # SubscriptionGroupConfig
PUT_RATE_SHOWN = Release(5, 3, 3)  # TopicStatsTable.topicPutTps


def version_desc(version: int) -> str:
    """The ordinal as text, ``V4_9_7``.  Upstream: MQVersion.getVersionDesc."""
    if version >= HIGHER_VERSION:
        return "HIGHER_VERSION"
    if version < len(_BETAS):
        return _BETAS[version]
    # Odd ordinals are releases, the even one before each is its snapshot.
    number, snapshot = version | 1, "" if version % 2 else "_SNAPSHOT"
    if number >= 213:
        tens, patch = divmod((number - 213) // 2, 10)
        return f"V{4 + tens // 10}_{tens % 10}_{patch}{snapshot}"
    minor, first, start = max(row for row in _BEFORE_FOUR if row[2] <= number)
    return f"V3_{minor}_{first + (number - start) // 2}{snapshot}"


# Languages ----------------------------------------------------------------------------


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
NewLanguage: TypeAlias = Literal[Language, "NODE_JS"]  # since 5.3.2

LANGUAGES: tuple[Language, ...] = typing.get_args(Language)

LANGUAGE_CODES: dict[str, int] = {name: code for code, name in enumerate((*LANGUAGES, "NODE_JS"))}


def language_name(code: int, release: Release) -> NewLanguage | None:
    """The name, or None for a byte that *release* does not know."""
    if 0 <= code < len(LANGUAGES):
        return LANGUAGES[code]
    return "NODE_JS" if code == len(LANGUAGES) and release >= NODE_JS_KNOWN else None
