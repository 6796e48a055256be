"""The tables that reports show, each from a campaign's data frames."""
