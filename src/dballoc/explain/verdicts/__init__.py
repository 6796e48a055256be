"""What a ledger means, in words."""
