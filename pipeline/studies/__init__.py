"""Tables of runs become a page that says what was found."""
