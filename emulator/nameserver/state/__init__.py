"""A NameServer as a value: its tables, and the answers read from them."""
