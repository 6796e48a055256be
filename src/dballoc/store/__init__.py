"""Results of a campaign: results.sqlite with its schema, its one writer and its reader."""
