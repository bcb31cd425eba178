"""The rules: one checker a file, each a promise of RocketMQ or a measure of it."""
