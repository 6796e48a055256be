"""What ``perf script`` prints of a process: names of files are that process's own."""

from example_perf_script import TEXT

from dballoc.profile.contention import perf_script
from dballoc.profile.model import Frame

OF = ("dballoc.profile.contention.perf_script",)
PRIVILEGED = True


def seeds() -> list[bytes]:
    return [TEXT.encode()]


def fuzz(data: bytes) -> None:
    lines = data.decode(errors="replace").splitlines(keepends=True)
    for event in perf_script.parse_events(lines, lambda address, file: Frame(f"{address:x}", file)):
        repr(event)
