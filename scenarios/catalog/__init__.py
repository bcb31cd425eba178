"""Scenarios and questions by name."""
