"""The broker's messages: the commit log, its index, and writing and reading them."""
