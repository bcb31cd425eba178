"""The outcomes with real brokers: ``tests/golden/histories.jsonl`` has a run on each line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from tests.histories.all_runs import CLIENTS, Key
from tests.histories.histories import HISTORIES, Facts
from tests.support.paths import GOLDEN

RECORD = GOLDEN / "histories.jsonl"

# Outcomes that depend on the client: by history, release of the broker ("" is every one), client.
DIFFERENT_CLIENTS: Mapping[tuple[str, str, str], str] = MappingProxyType(
    {
        ("traced", "4.9.7", "java-5.4.0"): "since 5.3.1 a client drops traces without region, "
        "and 4.9 stores none in messages (AsyncTraceDispatcher, AsyncDataSendTask.sendTraceData)",
        ("traced", "", "go-2.1.2"): "this client traces every message as a normal one, and no end "
        "of a transaction (producer/interceptor.go reads MsgType, which producer.go does not set)",
    }
)


def recorded() -> dict[Key, Facts]:
    """The recorded outcomes, in the order of the file."""
    lines = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else []
    found = map(json.loads, lines)
    return {
        Key(line["history"], line["release"], line["client"]): line["outcome"] for line in found
    }


def record(outcomes: Mapping[Key, Facts]) -> None:
    """Put *outcomes* in place of those that were recorded."""
    for key, outcome in outcomes.items():
        assert "failed" not in outcome, f"not recorded, because {key} failed: {outcome}"
    known = recorded() | dict(outcomes)
    histories, clients = [*HISTORIES], [*CLIENTS]
    keys = sorted(
        known,
        key=lambda key: (histories.index(key.history), key.release, clients.index(key.client)),
    )
    lines = [{**key._asdict(), "outcome": known[key]} for key in keys]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    RECORD.write_text(text, encoding="utf-8")


def difference(key: Key) -> str:
    """Why this client's outcome is another one; "" if it must not be."""
    history, release, client = key
    found = (DIFFERENT_CLIENTS.get((history, each, client), "") for each in (release, ""))
    return next(filter(None, found), "")
