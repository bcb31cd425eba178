"""Writes report data as one self-contained HTML page: style, script and data in one file.

The data is JSON, compressed and in base64: a name in it is text for the script, never a
part of the page.  The page's Content-Security-Policy forbids loading anything.  Browsers unpack
the data with DecompressionStream (Chromium 80, Firefox 113, Safari 16.4 and later).  Without a
script they show a summary (``static_summary``), which is not in the page otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from rocketmq_emulator.scenarios.report.columns import differences
from rocketmq_emulator.scenarios.report.report_data import ReportData
from rocketmq_emulator.scenarios.report.static_summary import static_summary

SCRIPTS = (
    "data.js",
    "view.js",
    "look.js",
    "nodes.js",
    "roles.js",
    "owners.js",
    "charts.js",
    "details.js",
    "words.js",
    "failure.js",
    "main.js",
)
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
COMPRESSION_LEVEL = 6  # 9 takes four times as long for 2 % less


class FailureShown(msgspec.Struct):
    """The part of a page that only a failed test has."""

    failed_us: int  # when it failed, by the machine's clock
    error: str  # in one line
    history: list[str]
    heads: list[str]  # of *messages*
    messages: list[list[str]]
    message_count: int  # also of those that are not listed


def write_page(report: ReportData, title: str, failure: FailureShown | None = None) -> str:
    """The page of *report*, with the heading *title*, which may be any text."""
    script = "'use strict';\n(() => {\n" + "".join(map(web_file, SCRIPTS)) + "})();\n"
    style = web_file("page.css")
    parts = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src 'unsafe-inline'",
        "style": style,
        "static_style": web_file("static.css"),
        "static": static_summary(report, title, failure.error if failure else ""),
        "script": script,
        "data": packed(report, title, failure),
    }
    return filled("page.html", parts)


def filled(name: str, parts: Mapping[str, str]) -> str:
    """The file *name* of ``web`` with *parts* in the places of their names."""
    # In one pass: an inserted text may itself look like a placeholder.
    return PLACEHOLDER.sub(lambda place: parts[place[1]], web_file(name))


def packed(report: ReportData, title: str, failure: FailureShown | None = None) -> str:
    """The data that the page's script reads: JSON, compressed (zlib), in base64."""
    found: dict[str, Any] = {"title": title, "failure": failure}
    found |= {name: getattr(report, name) for name in report.__struct_fields__}
    data = msgspec.json.encode(found, enc_hook=differences)
    return base64.b64encode(zlib.compress(data, COMPRESSION_LEVEL)).decode()


def web_file(name: str) -> str:
    """The text of a file of the page."""
    return (
        resources.files("rocketmq_emulator.scenarios.report")
        .joinpath("web", name)
        .read_text(encoding="utf-8")
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
