"""What every test may use."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import hypothesis

sys.path.insert(0, str(Path(__file__).parent))

# An example may take as long as it takes: how busy the machine is says nothing about the code.
hypothesis.settings.register_profile("any_machine", deadline=None)
hypothesis.settings.load_profile("any_machine")

# A shell lets what it runs in the background ignore Ctrl-C, and so would every program that is
# started, and interrupted, by a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
