"""A consumer as a member of its group: its share of the queues, their offsets, its calls."""
