"""What a search has tried, who is put forward, and what the confirmation says."""
