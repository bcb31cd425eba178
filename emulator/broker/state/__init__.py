"""A broker as a value: what it knows and decides, without IO."""
