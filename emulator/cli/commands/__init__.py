"""One file a command of ``rmqemu``."""
