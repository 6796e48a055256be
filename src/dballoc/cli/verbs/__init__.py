"""One short file per verb: parse, call, print."""
