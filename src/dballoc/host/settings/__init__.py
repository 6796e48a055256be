"""The host's settings that dballoc changes: the lock, the journal, THP."""
