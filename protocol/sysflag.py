"""System flags: of a message (compression, transaction type, length of hosts) and of a topic.

Upstream: MessageSysFlag, CompressionType, TopicSysFlag.
"""

from __future__ import annotations

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
