"""The bit fields of the protocol: permissions, and the system flags of pulls, messages and topics.

A perm has three bits: the operations allowed on a topic's queues.  The system flag of a pull
request states which of its other fields are used.  The system flag of a message holds its
compression, its transaction type (a field of two bits, not two flags) and the length of its
hosts; the one of a topic, whether its producers or consumers are in unit mode.

Upstream: PermName, PullSysFlag, MessageSysFlag, CompressionType, TopicSysFlag.
"""

from __future__ import annotations

# Permissions: PermName ----------------------------------------------------------------


PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
PERM_READ_WRITE = PERM_READ | PERM_WRITE

_LETTERS = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))


def is_readable(perm: int) -> bool:
    """Whether messages may be pulled."""
    return bool(perm & PERM_READ)


def is_writeable(perm: int) -> bool:
    """Whether messages may be sent."""
    return bool(perm & PERM_WRITE)


def perm_text(perm: int) -> str:
    """``RW-`` and the like; other bits are not shown."""
    return "".join(letter if perm & bit else "-" for bit, letter in _LETTERS)


# Pull requests: PullSysFlag -----------------------------------------------------------


COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4
CLASS_FILTER = 0x8
LITE_PULL = 0x10


def pull_flag(
    *,
    commit_offset: bool = False,
    suspend: bool = False,
    subscription: bool = False,
    class_filter: bool = False,
    lite_pull: bool = False,
) -> int:
    """Upstream: PullSysFlag.buildSysFlag."""
    return (
        commit_offset * COMMIT_OFFSET
        | suspend * SUSPEND
        | subscription * SUBSCRIPTION
        | class_filter * CLASS_FILTER
        | lite_pull * LITE_PULL
    )


# Messages and topics: MessageSysFlag, TopicSysFlag ------------------------------------


COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_NOT = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40  # 5.x
INNER_BATCH = 0x80  # 5.x

TOPIC_UNIT, TOPIC_UNIT_SUB = 1, 2  # of a topic whose producers, or consumers, are in unit mode

LZ4 = 0x100
ZSTD = 0x200
ZLIB = 0x300
_COMPRESSION_TYPE = 0x700


def transaction_type(sys_flag: int) -> int:
    """One of the four ``TRANSACTION_…``; a field of two bits, not two flags."""
    return sys_flag & TRANSACTION_ROLLBACK


def is_compressed(sys_flag: int) -> bool:
    """Whether the sender compressed the body."""
    return bool(sys_flag & COMPRESSED)


def without_compressed(sys_flag: int) -> int:
    """*sys_flag* without the compressed bit; the type stays."""
    return sys_flag & ~COMPRESSED


def compression_type(sys_flag: int) -> int:
    """How the body was compressed, if it was: zlib if the sender set no type.

    May be an undefined value, which ``decompress`` refuses.
    """
    return sys_flag & _COMPRESSION_TYPE or ZLIB
