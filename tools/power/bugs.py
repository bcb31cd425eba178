"""All planted bugs by name.  A bug may be added, never replaced."""

from __future__ import annotations

from collections.abc import Mapping

from tools.power import client_consumes, client_sends, servers
from tools.power.bug import Bug

_ALL = (*client_sends.BUGS, *client_consumes.BUGS, *servers.BUGS)
BUGS: Mapping[str, Bug] = {bug.name: bug for bug in _ALL}
assert len(BUGS) == len(_ALL), "two planted bugs have the same name"
