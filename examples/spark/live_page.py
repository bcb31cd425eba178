"""The page of live.py: a board that threads write to, and a server that shows it.

The browser requests ``/board`` twice a second and draws the answer.  Loopback only.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

PAGE = Path(__file__).with_name("live.html")
Cell = tuple[int, str]  # a window's first second, a region


class Board:
    """Sent and counted orders by window and region, and events with their times."""

    def __init__(self, window_s: int) -> None:
        self.window_s = window_s
        self.sent_counts: Counter[Cell] = Counter()
        self.counted_counts: dict[Cell, int] = {}
        self.events: list[tuple[float, str]] = []
        self.batches: list[dict[str, float]] = []
        self.state = "starting"
        self._began_s = time.time()
        self._lock = threading.Lock()
        self._counts = threading.Event()

    # Written by the shop, the run and Spark -------------------------------------------

    def wait_until_counting(self, timeout_s: float) -> None:
        """Wait for Spark's first counts, the start of all times.  Raises ``TimeoutError``."""
        if not self._counts.wait(timeout_s):
            raise TimeoutError(f"Spark has counted nothing for {timeout_s:g} s")

    def end(self, *, is_exact: bool) -> None:
        """Set the result of the comparison."""
        self.state = "exact" if is_exact else "different"

    def age_s(self) -> float:
        """Seconds since Spark's first counts."""
        return time.time() - self._began_s

    def happened(self, what: str) -> None:
        """Add an event at the present time."""
        with self._lock:
            self.events.append((round(self.age_s(), 2), what))

    def sent(self, window: int, region: str) -> None:
        """Add an acknowledged order."""
        with self._lock:
            self.sent_counts[window, region] += 1

    def counted(self, batch: int, counts: dict[Cell, int]) -> None:
        """Set Spark's newest counts of the windows that have changed."""
        if not self._counts.is_set():
            self._began_s, self.state = time.time(), "running"
            self._counts.set()
        with self._lock:
            before = sum(self.counted_counts.values())
            self.counted_counts.update(counts)
            orders = sum(self.counted_counts.values()) - before
            self.batches.append({"batch": batch, "at_s": round(self.age_s(), 2), "orders": orders})

    # Read ------------------------------------------------------------------------------

    def is_equal(self) -> bool:
        """Whether Spark's count equals the sent orders in every window."""
        with self._lock:
            return dict(self.sent_counts) == self.counted_counts

    def totals(self) -> tuple[int, int]:
        """The numbers of sent and of counted orders."""
        with self._lock:
            return self.sent_counts.total(), sum(self.counted_counts.values())

    def shown(self) -> dict[str, Any]:
        """The data of the page as JSON values."""
        with self._lock:
            cells = sorted(self.sent_counts.keys() | self.counted_counts.keys())
            rows = [
                {
                    "at_s": round(window - self._began_s, 2),
                    "region": region,
                    "sent": self.sent_counts[window, region],
                    "counted": self.counted_counts.get((window, region), 0),
                }
                for window, region in cells
            ]
            return {
                "state": self.state,
                "age_s": round(self.age_s(), 1),
                "window_s": self.window_s,
                "sent": self.sent_counts.total(),
                "counted": sum(self.counted_counts.values()),
                "cells": rows,
                "events": list(self.events),
                "batches": self.batches[-600:],
            }


class Page:
    """Serves *board* on a loopback port; 0 is any free one."""

    def __init__(self, board: Board, port: int) -> None:
        script = get_plotlyjs().encode()

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match self.path:
                    case "/":
                        self._answer("text/html; charset=utf-8", PAGE.read_bytes())
                    case "/plotly.js":
                        self._answer("text/javascript; charset=utf-8", script)
                    case "/board":
                        self._answer("application/json", json.dumps(board.shown()).encode())
                    case _:
                        self.send_error(404)

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log no requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._server.shutdown()
