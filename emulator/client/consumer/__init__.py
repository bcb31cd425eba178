"""Consuming: the push consumer, rebalance, pulling, listeners and offsets."""
