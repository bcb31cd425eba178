"""The broker's tables, and the files that keep them."""
