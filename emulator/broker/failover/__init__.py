"""Tasks of slaves that act as a master, and of brokers that come back (5.x)."""
