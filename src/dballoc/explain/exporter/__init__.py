"""A live server's memory for Prometheus: over HTTP, with bounded cost, and few rights."""
