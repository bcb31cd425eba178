"""Rows as JUnit XML: a suite a scenario, a case a seed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET  # everybody's name for it

from scenarios.result import RunResult

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(rows: Iterable[RunResult]) -> bytes:
    """The document; what does not pass has its reason, violations and journal in it."""
    suites = ET.Element("testsuites")
    by_name: dict[str, list[RunResult]] = {}
    for row in rows:
        by_name.setdefault(row.scenario, []).append(row)
    for name, of_one in by_name.items():
        suite = ET.SubElement(suites, "testsuite", name=_clean(name))
        suite.set("tests", str(len(of_one)))
        suite.set("failures", str(sum(row.verdict == "failed" for row in of_one)))
        suite.set("errors", str(sum(row.verdict == "error" for row in of_one)))
        suite.set("time", f"{sum(row.took_s for row in of_one):.3f}")
        for row in sorted(of_one, key=lambda row: row.seed):
            _add_case(suite, row)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_case(suite: ET.Element, row: RunResult) -> None:
    name = f"{row.world} {row.release} seed {row.seed}"
    case = ET.SubElement(suite, "testcase", classname=_clean(row.scenario), name=name)
    case.set("time", f"{row.took_s:.3f}")
    if row.verdict == "passed":
        return
    kind = "failure" if row.verdict == "failed" else "error"
    said = ET.SubElement(case, kind, message=_clean(row.reason))
    lines = [
        f"{one.mono_us / 1_000_000:.3f} s {one.checker}: {one.what}" for one in row.violations
    ]
    if row.journal:
        lines.append(f"journal: {row.journal}")
    said.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return NOT_IN_XML.sub("�", text)
