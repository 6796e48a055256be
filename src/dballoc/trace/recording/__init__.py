"""Raw recordings, the files that native/trace writes, as arrays."""
