"""Journals become tables, by steps that are each DataFrame → DataFrame."""
