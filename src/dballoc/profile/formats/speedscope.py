"""speedscope's own JSON format, as its file-format-schema.json defines it
(github.com/jlfwong/speedscope).
"""

import json

import dballoc
from dballoc.profile import call_tree, profile_tables
from dballoc.profile.model import Frame, Profile

# Our units in speedscope's words; it has none for counts.
_UNITS = {"bytes": "bytes", "seconds": "seconds"}


def encode_speedscope(profile: Profile, value: str) -> bytes:
    """Encode every value of the profile as a view of its own; ``value`` is the one shown first.
    KeyError if the profile has no such value.
    """
    profile.column(value)
    numbers: dict[Frame, int] = {}
    stacks = [
        [numbers.setdefault(frame, len(numbers)) for frame in call_tree.list_frames(sample)]
        for sample in profile.samples
    ]
    views = []
    for kind in profile_tables.list_shown_values(profile):
        column = profile.column(kind.key)
        weights = [sample.values[column] for sample in profile.samples]
        pairs = [
            (stack, weight)
            for stack, weight in zip(stacks, weights, strict=True)
            if stack and weight > 0
        ]
        views.append(
            {
                "type": "sampled",
                "name": kind.title,
                "unit": _UNITS.get(kind.unit, "none"),
                "startValue": 0,
                "endValue": sum(weight for _, weight in pairs),
                "samples": [stack for stack, _ in pairs],
                "weights": [weight for _, weight in pairs],
            }
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": profile.title,
        "exporter": f"dballoc {dballoc.__version__}",
        "activeProfileIndex": [
            kind.key for kind in profile_tables.list_shown_values(profile)
        ].index(value),
        "shared": {"frames": [_describe_frame(frame) for frame in numbers]},
        "profiles": views,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=None).encode(
        "utf-8", "backslashreplace"
    )


def _describe_frame(frame: Frame) -> dict[str, str | int]:
    """Describe a frame; ``file`` is the source file if it is known, else the module."""
    fields: dict[str, str | int] = {"name": frame.function}
    if file := frame.file or frame.module:
        fields["file"] = file
    if frame.file and frame.line:
        fields["line"] = frame.line
    return fields
