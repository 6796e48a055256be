"""File formats of profiles, one module each: dballoc's own, and those of other programs."""
