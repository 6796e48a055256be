"""How ``dballoc list`` makes, proves and prints its rows."""
