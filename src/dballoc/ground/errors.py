"""The two ways in which a command ends badly. Both print one line and never a traceback."""


class _OneLineError(Exception):
    """One line: a message may quote a file, which may have line breaks wherever it likes."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split("\n"))


class UsageError(_OneLineError):
    """The user asked for something that cannot be started as asked: exit status 2, nothing was
    started.
    """

    exit_status = 2


class NotNow(UsageError):
    """It cannot be started as asked now, and may be in a few minutes: others have the memory, the
    disk, or a lock.
    """


class Failure(_OneLineError):
    """Something went wrong on the way: exit status 1; what was finished is kept."""

    exit_status = 1
