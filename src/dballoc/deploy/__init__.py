"""How to run one's own server with a variant of a campaign: prints, changes nothing."""
