"""Beside the helpers of these tests, so that those in the rooms below can import them."""
