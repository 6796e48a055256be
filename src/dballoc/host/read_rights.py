"""Who may read another process: its memory, its environment, what its files are."""

from pathlib import Path

_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_CAPABILITIES = "who has CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"


def read_ptrace_scope() -> int:
    """Return kernel.yama.ptrace_scope, 0 where there is no Yama."""
    try:
        return int(_PTRACE_SCOPE.read_text())
    except (OSError, ValueError):
        return 0


def describe_readers(ptrace_scope: int) -> str:
    """Return who may look into a process, and what to do: the kernel's rule
    (Documentation/admin-guide/LSM/Yama.rst).
    """
    if ptrace_scope >= 3:
        return "nobody may look into it: kernel.yama.ptrace_scope is 3 until the next boot"
    if ptrace_scope >= 1:
        return (
            f"only root and {_CAPABILITIES} may look into it, as kernel.yama.ptrace_scope is "
            f"{ptrace_scope}: run this as one of them"
        )
    return f"only root, its own user and {_CAPABILITIES} may look into it: run this as one of them"
