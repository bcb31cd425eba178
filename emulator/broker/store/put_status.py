"""Why a message was not stored, in upstream's words: the sender's reply is made of them."""

from __future__ import annotations

import enum


class PutStatus(enum.Enum):
    """Upstream: PutMessageStatus, those of a message that is not in the log."""

    SERVICE_NOT_AVAILABLE = enum.auto()
    MESSAGE_ILLEGAL = enum.auto()
    PROPERTIES_SIZE_EXCEEDED = enum.auto()
    CREATE_MAPPED_FILE_FAILED = enum.auto()


class PutRefused(Exception):
    """The message was not stored, and nothing else has changed."""

    def __init__(self, status: PutStatus, reason: str) -> None:
        super().__init__(f"{status.name}: {reason}")
        self.status = status
        self.reason = reason
