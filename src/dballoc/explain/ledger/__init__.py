"""Which byte belongs to which line of the ledger, and what the configuration allows. Pure."""
