"""Replay a plan once against one malloc."""

from collections.abc import Collection, Mapping
from pathlib import Path

from dballoc.allocators.find_library import Allocator
from dballoc.host.guardian.guardian_client import Custody
from dballoc.trace.replay.plan_file import ReplayPlan
from dballoc.trace.replay.replay_result import ReplayResult
from dballoc.trace.replay.replay_settings import ReplaySettings


def run_replay(
    plan: ReplayPlan,
    allocator: Allocator,
    settings: ReplaySettings,
    *,
    custody: Custody,
    scratch: Path,
    tunables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    cpus: Collection[int] | None = None,
    thp_disable: bool = False,
) -> ReplayResult:
    """Replay ``plan`` once on that malloc, as the server user.

    ``scratch``: a directory of ours for the engine's output, which the caller removes.
    ``tunables``, ``environment``: as of a server's variant. ``cpus``: run on these alone.
    What goes wrong with the malloc (it is not in use, it crashes, hangs, returns no memory, is
    killed at the limit) is the result's fault. UsageError if the plan needs more than the limits
    or the engine cannot read it; Failure if the engine cannot be started.
    """
    raise NotImplementedError
