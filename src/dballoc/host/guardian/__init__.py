"""The guardian, a process that owns all that must not outlive dballoc, and its client."""
