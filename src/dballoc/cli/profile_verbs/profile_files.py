"""Read the profiles that ``dballoc profile`` compares or exports, and choose the value."""

from collections.abc import Sequence
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_file import write_file
from dballoc.profile import profile_tables
from dballoc.profile.model import Profile, Value


def read_profiles(paths: Sequence[Path], key: str | None) -> tuple[list[Profile], Value]:
    """Read profiles, and return them and the value with this key, or, if ``key`` is None, the first
    that all have. Raises UsageError if a file is not a profile, lacks the value, or has it in
    another unit.
    """
    # Here: --help needs none of it.
    from dballoc.profile.formats import profile_file

    profiles = [profile_file.load_profile(path) for path in paths]
    common = [
        v
        for v in profile_tables.list_shown_values(profiles[0])
        if all(v.key in {w.key for w in profile_tables.list_shown_values(p)} for p in profiles)
    ]
    if key is None and not common:
        raise UsageError(
            f"{paths[0]}: shares no value with {paths[-1]}; give profiles of the same kind"
        )
    key = key or common[0].key
    for path, profile in zip(paths, profiles, strict=True):
        if key not in {value.key for value in profile_tables.list_shown_values(profile)}:
            keys = ", ".join(value.key for value in profile_tables.list_shown_values(profile))
            raise UsageError(f"--value {key}: {path} has no such value; it has {keys or 'none'}")
    measures = [profile.values[profile.column(key)] for profile in profiles]
    for path, value in zip(paths, measures, strict=True):
        if value.unit != measures[0].unit:
            raise UsageError(f"{path}: has {key} in {value.unit}, {paths[0]} in {measures[0].unit}")
    return profiles, measures[0]


def write_output(path: Path, content: bytes) -> None:
    """Write a file. Raises UsageError if that cannot be done."""
    try:
        write_file(path, content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
