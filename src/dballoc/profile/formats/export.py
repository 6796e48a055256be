"""Export profiles for other programs: the formats, and how many profiles a file of each holds."""

from collections.abc import Callable, Sequence

from dballoc.profile import flamegraph
from dballoc.profile.formats import collapsed, massif, pprof, speedscope
from dballoc.profile.model import Profile

# Each format's encoder, and the usual suffix of its files' names.
_SINGLE_PROFILE_WRITERS: dict[str, tuple[Callable[[Profile, str], bytes], str]] = {
    "collapsed": (collapsed.encode_collapsed, ".collapsed"),
    "pprof": (pprof.encode_pprof, ".pb.gz"),
    "speedscope": (speedscope.encode_speedscope, ".speedscope.json"),
}
_SEVERAL_PROFILES_WRITERS: dict[str, tuple[Callable[[Sequence[Profile], str], bytes], str]] = {
    "massif": (massif.encode_massif, ".massif.out"),
    "html": (lambda profiles, value: _encode_html(profiles, value), ".html"),
}

FORMATS = (*_SINGLE_PROFILE_WRITERS, *_SEVERAL_PROFILES_WRITERS)


def get_suffix(format_name: str) -> str:
    """Return the usual suffix of a file's name. KeyError if there is no such format."""
    return (_SINGLE_PROFILE_WRITERS | _SEVERAL_PROFILES_WRITERS)[format_name][1]


def takes_many(format_name: str) -> bool:
    """Whether several profiles (snapshots of a process, or variants) go into one file."""
    return format_name in _SEVERAL_PROFILES_WRITERS


def export_profiles(profile: Profile | Sequence[Profile], value: str, format_name: str) -> bytes:
    """Encode profiles as a file of ``collapsed``, ``pprof``, ``speedscope``, ``massif`` or
    ``html``. KeyError if a profile has no such value, or there is no such format; ValueError if the
    format cannot hold these profiles.
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
