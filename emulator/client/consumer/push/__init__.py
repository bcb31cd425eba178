"""Consumers that call a listener: PushConsumer, its pulls, and its two consume services."""
