"""Fixtures of the pipeline's tests: files to sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipeline.sweeping import QUESTIONS, SHORT


@pytest.fixture
def short(tmp_path) -> Path:
    """A scenario of a few virtual seconds."""
    file = tmp_path / "short.toml"
    file.write_text(SHORT)
    return file


@pytest.fixture
def questions(tmp_path) -> Path:
    """A file with questions."""
    file = tmp_path / "some_questions.py"
    file.write_text(QUESTIONS)
    return file
