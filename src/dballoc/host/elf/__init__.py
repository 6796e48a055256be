"""ELF files: what they export, what they ask of the loader, and the loader itself."""
