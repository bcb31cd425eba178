"""Recall handles: ``RecallMessageHandle`` of 5.3.2, byte for byte."""

from __future__ import annotations

import base64

import pytest

from rocketmq_emulator.protocol.messages.message_ids import (
    BadHandle,
    RecallHandle,
    decode_handle,
)

HANDLE = RecallHandle("orders", "broker-a", "1700000000001", "7F0000010000")
TEXT = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDEwMDAw"


def test_a_handle_is_its_parts_with_blanks_between_in_url_safe_base64() -> None:
    assert HANDLE.encode() == TEXT
    assert decode_handle(TEXT) == HANDLE


def test_the_alphabet_is_that_of_urls_and_padding_may_be_left_out() -> None:
    odd = RecallHandle("t", "ÿþ¿", "1", "??>")
    assert not {"+", "/"} & set(odd.encode())
    assert decode_handle(odd.encode().rstrip("=")) == odd


@pytest.mark.parametrize("raw", [b"", b"v1", b"v2 t b 1 k", b"v1 t b 1", b"v1 t b 1 ", b"v1  b 1"])
def test_what_has_another_version_or_too_few_parts_is_no_handle(raw: bytes) -> None:
    with pytest.raises(BadHandle, match="recall handle is invalid"):
        decode_handle(base64.urlsafe_b64encode(raw).decode())


@pytest.mark.parametrize("text", ["x", "a+b/", "====", TEXT + "=", "é" * 4, "dj Eg"])
def test_what_is_no_base64_is_no_handle(text: str) -> None:
    with pytest.raises(BadHandle, match="recall handle is invalid"):
        decode_handle(text)
