"""One short file per verb: parse, call, print. Nothing imports this room."""
