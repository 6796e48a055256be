"""How ``dballoc bench`` does what its flags ask for."""
