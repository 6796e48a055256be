"""Results that were made elsewhere."""
