"""RocketMQ's SQL92 filter language: a text, compiled to a filter of message properties."""
