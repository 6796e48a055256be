"""The heap probe's client, and heap profiles from its snapshots."""
