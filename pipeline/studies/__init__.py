"""Makes an HTML page of results from the table of a sweep's runs."""
