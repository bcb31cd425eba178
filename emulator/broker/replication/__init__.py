"""Replication between the brokers of one name: the master's log and tables, copied to slaves."""
