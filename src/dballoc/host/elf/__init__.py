"""ELF files: their exports, what they tell the loader, and the loader itself."""
