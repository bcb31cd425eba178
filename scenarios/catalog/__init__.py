"""Finds scenarios and questions by name, and has the questions about allocation strategies."""
