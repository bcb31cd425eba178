"""What each node's tables held at a moment, as a journal's facts tell it: ``rmqemu inspect``."""
