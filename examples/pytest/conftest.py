"""Tests of trio are run by pytest-trio; those in virtual time need no such plugin."""

from pytest_trio.enable_trio_mode import *  # noqa: F403  # as in its manual
