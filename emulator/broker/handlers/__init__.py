"""The handlers of a broker's calls, by theme."""
