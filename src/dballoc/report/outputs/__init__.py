"""One file per output: HTML, Markdown, CSV, JSON, terminal."""
