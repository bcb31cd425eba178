"""docs/control.md: a cluster gives the answers on the page to the curl lines on the page."""

from __future__ import annotations

import http.client
import json
import re
import shlex

from rocketmq_emulator.cluster.control.routes import ROUTES
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "control.md").read_text()
SHOWN = re.compile(r"^\$ (curl (?!-N).*)\n(\{.*\})$", re.MULTILINE)
OF_THIS_RUN = {"address", "pid", "since_ms", "left_ms", "signal"}  # an embedded node has no signal


def curl(command: str, control: str) -> dict:
    """The answer that the curl line *command* prints; only the options -X and -d are supported."""
    words = shlex.split(command)[1:]
    method, body = "GET", None
    while words[0].startswith("-"):
        option, value, *words = words
        method, body = (value, body) if option == "-X" else ("POST", value.encode())
    path = words[0].removeprefix("http://127.0.0.1:9875")
    connection = http.client.HTTPConnection(control.removeprefix("http://"), timeout=30)
    connection.request(method, path, body)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def steady(answer: dict) -> dict:
    return {key: value for key, value in answer.items() if key not in OF_THIS_RUN}


def test_the_curl_lines_of_the_page_print_what_stands_below_them() -> None:
    shown = SHOWN.findall(PAGE)
    assert len(shown) >= 9
    with EmbeddedCluster(control=0) as cluster:
        for command, wanted in shown:
            assert steady(curl(command, cluster.control)) == steady(json.loads(wanted)), command


def test_the_page_names_every_path() -> None:
    for route in ROUTES:
        path = route.path.replace("{name}", "NAME").replace("{id}", "ID")
        last = path.rpartition("/")[2]
        assert path in PAGE or f"`…/{last}`" in PAGE or path.startswith("/links"), path
