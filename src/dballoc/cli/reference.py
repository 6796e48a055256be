"""All verbs as one application, for the tool that writes their reference (``make docs``)."""

from dballoc.cli.verb_list import application

app = application()
