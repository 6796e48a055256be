"""Results made elsewhere: read, checked, and brought into a results directory."""
