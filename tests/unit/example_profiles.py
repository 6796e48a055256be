"""Profiles for tests: a small one by hand, and hypothesis's own."""

from hypothesis import strategies as st

from dballoc.profile.model import Frame, Profile, Sample, Value

MIB = 2.0**20

MAIN = Frame("main", "mariadbd", file="sql/main.cc", line=25)
PARSE = Frame("parse_sql(THD*, Parser_state*)", "mariadbd")
ITEM = Frame("Item::copy<int>(List<Item> const&)", "mariadbd")
STATIC = Frame("mariadbd+0x1a2b", "mariadbd", named=False)
NEW = Frame("operator new(unsigned long)", "libstdc++.so.6")
MALLOC = Frame("malloc", "libc.so.6")

VALUES = (
    Value("live", "bytes", "live bytes"),
    Value("live.variance", "bytes²", "variance of live bytes"),
    Value("objects", "objects", "live objects"),
    Value("spent", "seconds", "time in malloc"),
)


def heap(leak: float = 1.0, taken: float = 1_700_000_000.0) -> Profile:
    """Four stacks; ``leak`` scales the one through a static function."""
    return Profile(
        title="mariadbd 10.11",
        values=VALUES,
        samples=[
            Sample((MAIN, PARSE, ITEM, NEW, MALLOC), (4 * MIB, MIB**2, 40.0, 0.25)),
            Sample(
                (MAIN, PARSE, PARSE, STATIC, MALLOC),
                (2 * MIB * leak, MIB**2, 2.0, 0.5),
                labels={"user": "app"},
            ),
            Sample((MAIN, MALLOC), (1 * MIB, 0.0, 1.0, 0.125)),
            Sample((ITEM, MALLOC), (0.5 * MIB, 0.0, 7.0, 0.0), truncated=True),
        ],
        taken_at=taken,
        facts={"sampling interval": "512 KiB"},
    )


# No lone surrogates: they are no Unicode, and no file holds them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats(min_value=0, max_value=1e15, allow_nan=False)
FRAMES = st.builds(Frame, TEXT, TEXT, st.booleans(), TEXT, st.integers(0, 10**6))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    kinds = draw(
        st.lists(st.sampled_from(["bytes", "objects", "seconds", "count"]), min_size=1, max_size=3)
    )
    values = tuple(Value(f"v{i}", unit, draw(TEXT)) for i, unit in enumerate(kinds))
    frames = draw(st.lists(FRAMES, min_size=1, max_size=6))
    samples = draw(
        st.lists(
            st.builds(
                Sample,
                st.lists(st.sampled_from(frames), max_size=6).map(tuple),
                st.tuples(*[NUMBERS] * len(values)),
                st.booleans(),
                st.dictionaries(TEXT, TEXT, max_size=2),
            ),
            max_size=8,
        )
    )
    return Profile(
        title=draw(TEXT),
        values=values,
        samples=samples,
        taken_at=draw(NUMBERS),
        seconds=draw(NUMBERS),
        facts=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
    )
