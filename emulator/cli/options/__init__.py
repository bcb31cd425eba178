"""Options and errors that several commands share."""
