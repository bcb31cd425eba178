"""Messages: as applications send them, as they are stored, and their names, tags and ids."""
