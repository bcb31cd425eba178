"""The rules: checkers of what RocketMQ promises, and measures of how it behaves."""
