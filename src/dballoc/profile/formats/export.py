"""Export profiles for other programs: the formats, and how many profiles a file of each holds."""

import json
from collections.abc import Callable, Sequence

import dballoc
from dballoc.profile import call_tree, flamegraph, profile_tables
from dballoc.profile.formats import collapsed, massif, pprof
from dballoc.profile.model import Frame, Profile

# Our units in speedscope's words; it has none for counts.
_SPEEDSCOPE_UNITS = {"bytes": "bytes", "seconds": "seconds"}


def _encode_speedscope(profile: Profile, value: str) -> bytes:
    """Encode every value of the profile as a view of its own, in speedscope's JSON, as its
    file-format-schema.json defines it (github.com/jlfwong/speedscope); ``value`` is the one shown
    first. Raises KeyError if the profile has no such value.
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
                "unit": _SPEEDSCOPE_UNITS.get(kind.unit, "none"),
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


# Each format's encoder, and the usual suffix of its files' names.
_SINGLE_PROFILE_WRITERS: dict[str, tuple[Callable[[Profile, str], bytes], str]] = {
    "collapsed": (collapsed.encode_collapsed, ".collapsed"),
    "pprof": (pprof.encode_pprof, ".pb.gz"),
    "speedscope": (_encode_speedscope, ".speedscope.json"),
}
_SEVERAL_PROFILES_WRITERS: dict[str, tuple[Callable[[Sequence[Profile], str], bytes], str]] = {
    "massif": (massif.encode_massif, ".massif.out"),
    "html": (lambda profiles, value: _encode_html(profiles, value), ".html"),
}

FORMATS = (*_SINGLE_PROFILE_WRITERS, *_SEVERAL_PROFILES_WRITERS)


def get_suffix(format_name: str) -> str:
    """Return the usual suffix of a file's name. Raises KeyError if there is no such format."""
    return (_SINGLE_PROFILE_WRITERS | _SEVERAL_PROFILES_WRITERS)[format_name][1]


def takes_many(format_name: str) -> bool:
    """Whether several profiles (snapshots of a process, or variants) go into one file."""
    return format_name in _SEVERAL_PROFILES_WRITERS


def export_profiles(profile: Profile | Sequence[Profile], value: str, format_name: str) -> bytes:
    """Encode profiles as a file of ``collapsed``, ``pprof``, ``speedscope``, ``massif`` or
    ``html``. Raises KeyError if a profile has no such value, or there is no such format; ValueError
    if the format cannot hold these profiles.
    """
    profiles = [profile] if isinstance(profile, Profile) else list(profile)
    if format_name in _SEVERAL_PROFILES_WRITERS:
        return _SEVERAL_PROFILES_WRITERS[format_name][0](profiles, value)
    if len(profiles) != 1:
        raise ValueError(f"{format_name} holds one profile")
    return _SINGLE_PROFILE_WRITERS[format_name][0](profiles[0], value)


def _encode_html(profiles: Sequence[Profile], value: str) -> bytes:
    titles = [p.title for p in profiles]
    named = [
        (title if titles.count(title) == 1 else f"{i}: {title}", p)
        for i, (title, p) in enumerate(zip(titles, profiles, strict=True), 1)
    ]
    return flamegraph.render_page(named, value, titles[-1]).encode("utf-8", "backslashreplace")
