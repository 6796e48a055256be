"""From rows to values, to a ratio with its interval, to a verdict."""
