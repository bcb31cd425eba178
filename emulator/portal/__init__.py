"""The trio clients for threads and for asyncio: one background thread runs them all."""
