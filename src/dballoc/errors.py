"""The two ways in which a command ends badly. Both print one line and never a traceback."""


class UsageError(Exception):
    """The user asked for something that cannot be started as asked: exit status 2, nothing was
    started.
    """

    exit_status = 2


class Failure(Exception):
    """Something went wrong on the way: exit status 1; what was finished is kept."""

    exit_status = 1
