"""How ``dballoc explain`` shows what it has read."""
