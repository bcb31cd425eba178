"""What is done with the journal of a run: replayed, shrunk, explained, looked into."""
