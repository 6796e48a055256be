"""The host settings that dballoc changes: their lock, their journal, THP."""
