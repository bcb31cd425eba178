"""The settings of every role, the releases that it can behave as, and bugs by name."""
