"""A controller as a value: its tables, its events, its elections."""
