"""The settings of every role, the releases they play, and the bugs that have a name."""
