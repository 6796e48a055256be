"""Make profiles of files of call stacks that other programs counted."""

from collections.abc import Mapping
from functools import cache

from dballoc import catalogue, readers
from dballoc.errors import UsageError
from dballoc.intake import powershell_text, xperf_stacks
from dballoc.intake.mapping_file import Counts
from dballoc.intake.output_mapping import StackFile
from dballoc.numbers import count
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.waits import WAITED, WAITS, WAKEUPS
from dballoc.profile.formats import collapsed, frame_text
from dballoc.profile.formats.collapsed import Functions
from dballoc.profile.model import Profile, Sample, Value

_LARGEST_FILE = 256 * readers.MIB

# By what a file counts: the profile's value, and what a number is multiplied with to give its unit.
VALUES: Mapping[Counts, tuple[Value, float]] = {
    "waits": (WAITS, 1.0),
    "waited": (WAITED, 1e-6),
    "wakeups": (WAKEUPS, 1.0),
    "cpu": (Value("cpu", "count", "Samples of the CPU"), 1.0),
}


def read_profile(file: StackFile) -> Profile:
    """Read a file of collapsed stacks, or one of the layouts of
    :mod:`dballoc.intake.xperf_stacks`. UsageError in one line if it is none of them.
    """
    try:
        text = powershell_text.read_text(file.path, _LARGEST_FILE, errors="replace")
    except readers.Unfit as error:
        raise UsageError(f"{file.path}: {error}") from None
    return parse_profile(text, file, Rules(catalogue.waits()))


def parse_profile(text: str, file: StackFile, rules: Rules) -> Profile:
    """Return the profile in a file's text. Each sample has the labels that ours have: what the
    thread waited for, and where malloc was entered. UsageError as for :func:`read_profile`.
    """
    sums, layout = _parse_stacks(text, file)
    value, factor = VALUES[file.counts]
    waits = file.counts in ("waits", "waited")
    parse = cache(frame_text.parse_frame)
    samples = []
    for functions, number in sums.items():
        frames = [parse(name) for name in functions]
        truncated = frame_text.is_truncation(frames[0])
        stack = rules.mark_kernel(frames[1:] if truncated else frames)
        if not stack:
            continue
        kind = rules.classify(stack)
        labels = {"wait": kind.group, "call": kind.call} if waits else {}
        if kind.entry:
            labels["malloc"] = kind.entry
        samples.append(Sample(stack, (number * factor,), truncated, labels))
    if not samples:
        raise UsageError(f"{file.path}: no stacks in it")
    method = f"imported from {file.path.name}: {layout}, {count(len(samples), 'different stack')}"
    return Profile(
        title=f"{file.variant}, {file.workload} at {file.threads}: {value.title.lower()}",
        values=(value,),
        samples=samples,
        facts={
            "method": method,
            "workload": file.workload,
            "clients": str(file.threads),
            "imported": file.path.name,
        },
    )


def _parse_stacks(text: str, file: StackFile) -> tuple[Mapping[Functions, float], str]:
    """Return the sum of each stack, and the name of the file's layout."""
    origin = str(file.path)
    if xperf_stacks.is_dump(text):
        return (
            xperf_stacks.parse_dump(text, origin, file.counts, file.process),
            "events of xperf's dumper",
        )
    if xperf_stacks.is_table(text):
        return (
            xperf_stacks.parse_table(text, origin, file.counts, file.process),
            "a table of Windows Performance Analyzer",
        )
    if file.process is not None:
        raise UsageError(
            f"{origin}: process: collapsed stacks do not say of which process they are"
        )
    return collapsed.parse_collapsed(text, origin), "collapsed stacks"
