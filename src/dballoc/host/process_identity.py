"""Tell a process from a later one with the same PID, and whether it can be who listens on a socket.

SO_PEERCRED tells who listened as PID and user of that time (unix(7)). The PID may be another
process's by now. (SO_PEERPIDFD, which cannot be wrong, came with Linux 6.5.)
"""

from dataclasses import dataclass

from dballoc import readers

# proc_pid_stat(5): the start in clock ticks since boot, counted from the state, which follows the
# name in brackets.
_START = 19


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """``started``: clock ticks since boot; ``users``: its real, effective, saved and file system
    user, and the root of its user namespace, as whom it may have begun.
    """

    started: int
    users: frozenset[int]


def read_identity(pid: int) -> ProcessIdentity:
    """Read the identity of a process; nothing of its memory is touched. OSError if it has ended."""
    home = f"/proc/{pid}"
    return parse_identity(
        readers.text_of_process(f"{home}/stat"),
        readers.text_of_process(f"{home}/status"),
        readers.text_of_process(f"{home}/uid_map"),
    )


def parse_identity(stat: str, status: str, uid_map: str) -> ProcessIdentity:
    """Parse the texts of /proc/PID/stat, status and uid_map (user_namespaces(7)). OSError if they
    are no process's. Pure.
    """
    try:
        started = int(stat.rpartition(")")[2].split()[_START])
        lines = dict(line.partition(":")[::2] for line in readers.rows(status))
        users = {int(word) for word in lines["Uid"].split()}
        ranges = [tuple(map(int, line.split())) for line in readers.rows(uid_map) if line]
        users |= {outside for inside, outside, _ in ranges if inside == 0}
    except (LookupError, ValueError) as error:
        raise ProcessLookupError(3, "it has ended") from error
    return ProcessIdentity(started=started, users=frozenset(users))
