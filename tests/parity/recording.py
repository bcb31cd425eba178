"""Recorded answers of real brokers to all questions: one JSON object for each question."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.parity.question import Question
from tests.support.paths import GOLDEN

SHOWN_CHARS_MAX = 200


def recorded(release: str, main: str = "parity") -> dict[str, Any]:
    """The answers of a real broker of *release*, by the titles of the questions."""
    lines = _path(main, release).read_text(encoding="utf-8").splitlines()
    return {line["title"]: line["answer"] for line in map(json.loads, lines)}


def record(release: str, answers: Iterable[tuple[Question, Any]], main: str = "parity") -> None:
    """Write the answers, each with its question's title, code and shortened fields."""
    lines = [
        {"title": q.title, "code": q.code, "fields": _asked(q), "answer": answer}
        for q, answer in answers
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    _path(main, release).write_text(text, encoding="utf-8")


def _asked(question: Question) -> dict[str, Any] | None:
    if question.fields is None:
        return None
    return {name: str(value)[:SHOWN_CHARS_MAX] for name, value in question.fields.items()}


def _path(main: str, release: str) -> Path:
    return GOLDEN / f"{main}-{release}.jsonl"
