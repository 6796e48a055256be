"""How a process ended, in words."""

import signal


def describe_exit_status(status: int) -> str:
    """Return ``exit status 1``, or ``SIGKILL`` for the negative status of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # one of the real-time signals, which have no names
        return f"signal {-status}"
