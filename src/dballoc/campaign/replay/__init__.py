"""A campaign of replays: the same blocks as of servers, each a recorded trace on one malloc."""
