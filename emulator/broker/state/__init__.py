"""A broker as a value: its state and its decisions, without IO."""
