"""An official client in a separate process, controlled by lines of JSON.

A command waits for its answer.  A test waits for events with a condition and a deadline,
and never sleeps.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ANSWER_S_MAX = 40.0
EVENT_S_MAX = 40.0
STOP_S_MAX = 10.0

Event = dict[str, Any]


class SdkError(Exception):
    """The client raised an error; the text is the client's."""


class SdkProcess:
    """One process that runs producers and consumers, each with a name."""

    def __init__(
        self, language: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.language = language
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._ids = itertools.count(1)
        self._answers: dict[int, Event] = {}
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()  # several threads may give commands
        self._ended = False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def begin(self, do: str, **arguments: object) -> int:
        """Start a command without waiting; ``answer`` waits for it."""
        number = next(self._ids)
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        return number

    def answer(self, number: int, seconds: float = ANSWER_S_MAX) -> Any:
        line = self._wait(lambda: self._answers.pop(number, None), seconds, f"answer {number}")
        if "error" in line:
            raise SdkError(line["error"])
        return line["result"]

    def is_answered(self, number: int) -> bool:
        """Whether ``answer`` would return at once."""
        with self._changed:
            return number in self._answers

    def invoke(self, do: str, **arguments: object) -> Any:
        """The result of the command *do*.  Raises ``SdkError`` with the client's own text."""
        return self.answer(self.begin(do, **arguments))

    def events(self, event: str, **wanted: object) -> list[Event]:
        """The events so far, in order, that have all values of *wanted*."""
        with self._changed:
            return self._select(event, wanted)

    def wait_events(
        self, event: str, count: int, seconds: float = EVENT_S_MAX, **wanted: object
    ) -> list[Event]:
        """Wait for *count* such events; after *seconds* fail, and show the last events."""

        def enough() -> list[Event] | None:
            found = self._select(event, wanted)
            return found if len(found) >= count else None

        found: list[Event] = self._wait(enough, seconds, f"{count} × {event} {wanted}")
        return found

    def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll until *holds* is true: for state of the client that causes no event."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{self.language}: not within {seconds} s: {what}"
            with self._changed:
                self._changed.wait(0.02)

    def kill(self) -> None:
        """End the process immediately, as a machine would that fails."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the process, and with it all its clients."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended before
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_S_MAX)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for text in lines:
                line = json.loads(text)
                with self._changed:
                    if "id" in line:
                        self._answers[line["id"]] = line
                    else:
                        self._events.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _select(self, event: str, wanted: Mapping[str, object]) -> list[Event]:
        return [
            line
            for line in self._events
            if line["event"] == event and all(line.get(k) == v for k, v in wanted.items())
        ]

    def _wait(self, found: Callable[[], Any], seconds: float, what: str) -> Any:
        deadline = time.monotonic() + seconds
        with self._changed:
            while (result := found()) is None:
                left = deadline - time.monotonic()
                assert not self._ended, (
                    f"the {self.language} process ended ({self._process.poll()}) before {what}"
                )
                assert left > 0, f"{self.language}: not within {seconds} s: {what}; {self._tail()}"
                self._changed.wait(left)
        return result

    def _tail(self) -> str:
        return f"{len(self._events)} events, the last are {self._events[-3:]}"
