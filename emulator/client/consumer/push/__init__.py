"""The consumer that calls a listener: PushConsumer, its pulls, and its two consume services."""
