"""The parts that all consumers share as group members: rebalance, offsets, broker calls."""
