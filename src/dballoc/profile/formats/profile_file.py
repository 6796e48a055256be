"""Read and write profiles as files: gzipped JSON of the complete model. The usual suffix is
``.profile.json.gz``.

The frames are listed once, and each sample refers to them by index: ``{"format": "dballoc profile
1", "title", "values": [[key, unit, title]], "taken", "seconds", "facts": {}, "frames": [[function,
module, named, file, line]], "samples": [[[frame, …], [value, …], truncated, {label: …}]]}``
"""

import gzip
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import write_own
from dballoc.profile.model import Frame, Profile, Sample, Value
from dballoc.profile.profile_tables import VARIANCE

_FORMAT = "dballoc profile 1"

# Bytes of JSON. A server's profile has a few MiB; a file that unpacks to more was made to harm.
_LIMIT = 128 * readers.MIB
_EXPECTED_FORMAT = "not a whole profile of dballoc (gzipped JSON, as dballoc profile writes it): "

# Beyond it sums of samples could become infinite.
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
# The probe has room for some 10,000 stacks, perf for a few times that.
_Samples = Field(max_length=2_000_000)
_Stack = Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=10_000)]
_Line = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class _ProfileFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["dballoc profile 1"]
    title: str
    values: Annotated[list[tuple[str, str, str]], Field(min_length=1)]
    taken_at: Annotated[_Number, Field(alias="taken")]
    seconds: _Number
    facts: dict[str, str]
    frames: list[tuple[str, str, bool, str, _Line]]
    samples: Annotated[list[tuple[_Stack, list[_Number], bool, dict[str, str]]], _Samples]


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile into a directory of ours; an existing file is replaced completely or not at
    all. Raises UsageError if the directory is not ours alone; OSError.
    """
    write_own(path, pack_profile(profile))


def pack_profile(profile: Profile) -> bytes:
    """Return a profile as the content of its file."""
    numbers: dict[Frame, int] = {}
    samples = [
        [
            [numbers.setdefault(frame, len(numbers)) for frame in s.stack],
            list(s.values),
            s.truncated,
            dict(s.labels),
        ]
        for s in profile.samples
    ]
    document = {
        "format": _FORMAT,
        "title": profile.title,
        "values": [list(value) for value in profile.values],
        "taken": profile.taken_at,
        "seconds": profile.seconds,
        "facts": dict(profile.facts),
        "frames": [list(frame) for frame in numbers],
        "samples": samples,
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A file system may have names that are not Unicode; they get question marks, because no JSON
    # reader would accept them.
    return gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)


def load_profile(path: Path, below: Path | None = None) -> Profile:
    """Read a profile that :func:`save_profile` wrote. Raises UsageError if the file is missing or
    something else. ``below``: as in :func:`dballoc.ground.readers.open_file`.
    """
    try:
        text = readers.unpacked(path, _LIMIT, below=below)
    except readers.Unfit as error:
        expectation = (
            "" if str(error).startswith(("cannot be read", "unpacks")) else _EXPECTED_FORMAT
        )
        raise UsageError(f"{path}: {expectation}{error}") from None
    try:
        document = _ProfileFile.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(
            f"{path}: not a profile of dballoc: {readers.first_complaint(error)}"
        ) from None
    try:
        return _build_profile(document)
    except _InvalidProfile as error:
        raise UsageError(f"{path}: not a profile of dballoc: {error}") from None


class _InvalidProfile(Exception):
    pass


def _build_profile(document: _ProfileFile) -> Profile:
    values = tuple(Value(*value) for value in document.values)
    if len({value.key for value in values}) != len(values):
        raise _InvalidProfile("values: two have the same key")
    variances = [i for i, value in enumerate(values) if value.key.endswith(VARIANCE)]
    frames = [Frame(*frame) for frame in document.frames]
    samples = []
    for i, (stack, numbers, truncated, labels) in enumerate(document.samples):
        if len(numbers) != len(values):
            raise _InvalidProfile(f"samples.{i}: {len(numbers)} numbers for {len(values)} values")
        if any(numbers[column] < 0 for column in variances):
            raise _InvalidProfile(f"samples.{i}: a variance below 0")
        if any(number >= len(frames) for number in stack):
            raise _InvalidProfile(f"samples.{i}: a frame that is not listed")
        samples.append(
            Sample(tuple(frames[number] for number in stack), tuple(numbers), truncated, labels)
        )
    return Profile(
        title=document.title,
        values=values,
        samples=samples,
        taken_at=document.taken_at,
        seconds=document.seconds,
        facts=document.facts,
    )
