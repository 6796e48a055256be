"""Tables of profiles that were recorded beside trials."""
