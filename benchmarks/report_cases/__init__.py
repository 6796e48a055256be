"""Cases of public reports, a module a subject; each module lists its own in ``CASES``."""
