"""Import results that were made elsewhere: read and check them, and write a results directory."""
