"""Other programs' file formats for profiles: one file each."""
