"""Reads journals and judges them: each checker gets the facts it takes, in one pass."""
