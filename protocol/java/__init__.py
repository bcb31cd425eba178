"""Java's own formats: fastjson's dialect, and properties files."""
