"""What commands draw: tables, live screens, progress bars."""
