"""All verbs as one application, for what writes their reference (``make docs``)."""

from dballoc.cli.verb_list import application

app = application()
