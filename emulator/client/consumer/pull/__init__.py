"""Consumers that an application polls: PullConsumer and LitePullConsumer."""
