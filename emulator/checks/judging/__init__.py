"""Journals are read and judged: every checker gets the facts that it takes, in one pass."""
