"""The results of one campaign."""
