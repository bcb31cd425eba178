"""The broker's tables, and the files they live in."""
