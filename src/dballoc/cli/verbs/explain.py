"""``dballoc explain``: where a live server's memory goes, now, over time, and between two
snapshots.
"""

from dballoc.cli.explain_parts.explain_request import Request
from dballoc.cli.late_cryptography import postpone_cryptography
from dballoc.cli.shared.field_flags import takes_flags


@takes_flags()
def explain(request: Request) -> None:
    """Say where a live server's memory goes: what it means, what to do, and lines that add up to
    its RSS.

    Without --pid, --socket or --service: the only server that runs here. Nothing is changed, except
    by --install-function, --remove-function and --trim, which say what they do and ask first.
    """
    postpone_cryptography()
    from dballoc.cli.explain_parts.run_explain import run_explain  # here: --help needs none

    run_explain(request)
