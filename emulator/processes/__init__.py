"""A node as an operating-system process: how it is started, observed and ended, and its code."""
