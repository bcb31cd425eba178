"""A message: what an application gives, what is stored, and the names, tags and ids in it."""
