"""Sending: the producer, its pipeline of attempts, and which brokers it avoids."""
