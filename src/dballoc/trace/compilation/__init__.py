"""From a recording, with addresses, to a trace, with object numbers."""
