"""The broker's messages: the log, its index, and what goes in and out of them."""
