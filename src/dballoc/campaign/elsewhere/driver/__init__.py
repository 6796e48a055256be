"""The driver of a campaign on several hosts: gives out blocks, and stores what hosts answer."""
