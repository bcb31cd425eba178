"""What happened to a process and its connections."""

from __future__ import annotations

from emulator.facts.fact import SCHEMA_VERSION, Fact


class NodeStarted(Fact, frozen=True):
    role: str
    address: str
    release: str
    schema: int = SCHEMA_VERSION


class NodeStopped(Fact, frozen=True):
    role: str
    reason: str


class ConnectionOpened(Fact, frozen=True):
    peer: str
    by: str  # "peer" or "us"


class ConnectionClosed(Fact, frozen=True):
    peer: str
    reason: str


class FrameRefused(Fact, frozen=True):
    """Bytes that are no frame, or fields that are no request."""

    peer: str
    reason: str
    closed: bool  # a bad frame closes its connection, bad fields get a coded reply


class PushDropped(Fact, frozen=True):
    """A one-way request was not sent: its reader is too slow, or no frame could hold it."""

    peer: str
    code: int
    waiting_bytes: int


class HandlerFailed(Fact, frozen=True):
    """A bug of ours surfaced as SYSTEM_ERROR."""

    peer: str
    code: int
    error: str
