"""How many files a program that we start may open."""

import math
import resource

from dballoc.host.guardian.guardian import may_raise_limits


def read_hard_limit() -> float:
    """Read this process's hard limit of open files; infinite without one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return math.inf if hard == resource.RLIM_INFINITY else hard


def read_most_files() -> float:
    """Read how many files a program may be given: infinite where we may raise the hard limit."""
    return math.inf if may_raise_limits() else read_hard_limit()
