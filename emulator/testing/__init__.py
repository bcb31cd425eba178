"""The pytest plugin, and the objects that its fixtures return."""
