"""A topic of RocketMQ as a source and a sink of Spark."""
