"""Handlers have the type of their request; a table has the calls of its release."""

from __future__ import annotations

import re

from mypy import api

from rocketmq_emulator.net.dispatch import Row, table_of
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.settings.releases import R_4_9_7, R_5_3_3
from tests.support.paths import ROOT

SNIPPET = """
from rocketmq_emulator.net.dispatch import Row, table_of
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.results import Call, Reply
from rocketmq_emulator.settings.releases import R_4_9_7
from protocol import catalog
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.nameserver import GetKVConfigRequest
from rocketmq_emulator.protocol.requests.sending import SendRequest

def pull(call: Call[PullMessageRequest]) -> Reply:
    reveal_type(call.request)  # a request
    return Reply(remark=call.request.queue_id)  # wrong: a number is no remark

def send(call: Call[SendRequest]) -> Reply:
    return Reply(remark=call.request.topic)

def any_request(call: Call[Header]) -> Reply:
    return Reply()

rows = (
    Row(catalog.PULL_MESSAGE, pull),
    Row(catalog.SEND_MESSAGE, send),
    Row(catalog.SEND_MESSAGE_V2, send),
    Row(catalog.SEND_MESSAGE, any_request),
    Row(catalog.SEND_MESSAGE, pull),  # wrong: another request
)
table_of((Row(catalog.GET_KV_CONFIG, send),), R_4_9_7)  # wrong: another request

async def invoke(client: RemotingClient) -> None:
    header = GetKVConfigRequest(namespace="n", key="k")
    await client.invoke("ip:1", catalog.GET_KV_CONFIG, header, timeout_ms=1)
    await client.invoke("ip:1", catalog.GET_KV_CONFIG, timeout_ms=1)
    await client.invoke("ip:1", catalog.PUT_KV_CONFIG, header, timeout_ms=1)  # wrong: its header
"""


def test_mypy_refuses_a_handler_or_a_header_of_another_request(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "snippet.py"
    path.write_text(SNIPPET)
    said, _, _ = api.run(["--strict", "--no-error-summary", "--follow-imports=silent", str(path)])
    errors = {int(number) for number in re.findall(r"^[^:]+:(\d+): error", said, re.MULTILINE)}
    wrong = {n for n, line in enumerate(SNIPPET.splitlines(), 1) if "# wrong" in line}
    assert errors == wrong, said
    assert (
        'Revealed type is "rocketmq_emulator.protocol.requests.pulling.PullMessageRequest"' in said
    )


def test_a_table_has_the_calls_of_its_release() -> None:
    rows = (
        Row(catalog.PULL_MESSAGE, lambda _call: Reply()),
        Row(catalog.LITE_PULL_MESSAGE, lambda _call: Reply()),
    )
    assert list(table_of(rows, R_4_9_7)) == [catalog.PULL_MESSAGE.code]
    assert list(table_of(rows, R_5_3_3)) == [
        catalog.PULL_MESSAGE.code,
        catalog.LITE_PULL_MESSAGE.code,
    ]
