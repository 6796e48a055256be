"""What every room may use: errors, numbers as text, bounded readers, directories."""
