"""What an application may set and hand over, checked where it is handed over."""
