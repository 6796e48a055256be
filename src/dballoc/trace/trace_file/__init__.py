"""The file of a trace: its layout, its writer, its reader."""
