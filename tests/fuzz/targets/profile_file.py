"""A profile (``.profile.json.gz``), and what is made of it: tables, differences, flame graph,
massif's graph and trees, the exports.
"""

import gzip
import tempfile
from pathlib import Path

from example_profiles import heap

from dballoc.cli.profile_verbs import profile_files
from dballoc.ground.errors import UsageError
from dballoc.profile import flamegraph, profile_tables
from dballoc.profile.formats import export, massif, massif_text, profile_file

OF = (
    "dballoc.profile.formats.profile_file",
    "dballoc.profile.formats.massif_text",
    "dballoc.profile.profile_tables",
    "dballoc.ground.readers",
)
PRIVILEGED = False


def seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "p"
        profile_file.save_profile(heap(), path)
        packed = path.read_bytes()
    return [packed, gzip.compress(gzip.decompress(packed)[:-40], mtime=0), packed + packed]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path, good = Path(home) / "p.profile.json.gz", Path(home) / "good"
        path.write_bytes(data)
        profile_file.save_profile(heap(), good)
        try:
            profiles, of = profile_files.read_profiles([path, good], None)
        except UsageError as error:
            assert "\n" not in str(error), error
            return
    profile_tables.rank_growth(*profiles, of.key)
    profile_tables.rank_growth_by_function(*profiles, of.key)
    flamegraph.render_difference_page(*profiles, of.key, "t").encode("utf-8", "backslashreplace")
    if of.unit == "bytes":
        run = massif.build_massif_run(profiles, of.key, massif.MassifOptions())
        massif_text.render_massif(run)
        massif_text.render_change(*profiles, of.key, massif.MassifOptions())
    for form in export.FORMATS:
        try:
            export.export_profiles(profiles[0], of.key, form)
        except ValueError as error:
            assert "holds" in str(error) or "bytes" in str(error), error
