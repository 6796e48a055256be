"""All verbs as one application, for what writes their reference (``make docs``)."""

from dballoc.cli.verbs import application

app = application()
