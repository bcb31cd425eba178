"""The pytest plugin, and what its fixtures give to a test."""
