"""The heap probe's client, and what its snapshots say."""
