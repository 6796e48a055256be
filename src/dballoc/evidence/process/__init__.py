"""What is found in the process itself."""
