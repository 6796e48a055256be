"""Print how to run one's own server with a variant of a campaign; nothing is changed."""
