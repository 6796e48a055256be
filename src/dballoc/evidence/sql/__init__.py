"""What the server says over SQL."""
