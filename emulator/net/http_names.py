"""HTTP for the address server: the standard library's client, in a worker thread.

It is asked once in two minutes and by few processes, so it is imported at its first use.
"""

from __future__ import annotations

from functools import partial

import trio

from emulator.net.address_server import HttpFailed

BODY_BYTES_MAX = 64 * 1024  # ours: of a list of NameServers


class ThreadedHttp:
    """``HttpNames`` over real sockets."""

    async def get(self, url: str, timeout_ms: int) -> str:
        """As ``HttpNames.get``; a thread that still waits when this is cancelled is left alone."""
        return await trio.to_thread.run_sync(
            partial(_get, url, timeout_ms / 1000), abandon_on_cancel=True
        )


def _get(url: str, timeout_s: float) -> str:
    import http.client  # noqa: PLC0415  # see above
    from urllib.parse import urlsplit  # noqa: PLC0415

    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        connection.request("GET", path)
        with connection.getresponse() as reply:
            status, body = reply.status, reply.read(BODY_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise HttpFailed(str(error) or repr(error)) from error
    finally:
        connection.close()
    if status != http.client.OK:
        raise HttpFailed(f"HTTP status {status}")
    return body.decode("utf-8", "replace")
