"""Search for better settings of a malloc: many cheap trials, then a campaign that confirms."""
