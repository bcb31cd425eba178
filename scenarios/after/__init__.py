"""Tools for the journal of a finished run: replay, shrink, explain, inspect the tables."""
