"""Profiles: which code allocates, grows or waits."""
