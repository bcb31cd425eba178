"""A node as an operating-system process: from outside (started, forked, ended) and from inside."""
