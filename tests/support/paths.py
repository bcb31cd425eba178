"""Paths of the checkout, for tests that read its files or start programs in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"  # recorded from a real RocketMQ
SUPPORT = TESTS / "support"
