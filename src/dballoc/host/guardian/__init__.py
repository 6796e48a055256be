"""The guardian: the process that owns all that must not outlive dballoc, and our end of it."""
