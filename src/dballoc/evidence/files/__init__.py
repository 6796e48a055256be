"""What is found in the server's files."""
