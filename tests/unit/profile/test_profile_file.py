"""A profile's own file: nothing is lost, and nothing else is taken for one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from example_profiles import heap, profiles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.profile.formats.profile_file import load_profile, save_profile
from dballoc.profile.model import Frame, Profile, Sample, Value

shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@shared
@given(profile=profiles())
def test_nothing_is_lost(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.profile.json.gz"
    save_profile(profile, path)
    assert load_profile(path) == profile
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "nothing is left beside it"


def test_the_same_profile_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        save_profile(heap(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_name_that_is_no_unicode_gets_a_question_mark(tmp_path: Path) -> None:
    save_profile(
        Profile(
            title="p",
            values=(Value("n", "count", "n"),),
            samples=[Sample((Frame("caf\udce9"),), (1.0,))],
        ),
        tmp_path / "p",
    )
    assert load_profile(tmp_path / "p").samples[0].stack[0].function == "caf?"


def test_a_number_that_is_none_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_profile(heap(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Out of range"):
        save_profile(
            Profile(
                title="p", values=(Value("n", "count", "n"),), samples=[Sample((), (float("nan"),))]
            ),
            path,
        )
    assert path.read_bytes() == before


def document(**changes: Any) -> dict[str, Any]:
    whole = {
        "format": "dballoc profile 1",
        "title": "t",
        "values": [["live", "bytes", "live bytes"]],
        "taken": 0,
        "seconds": 0,
        "facts": {},
        "frames": [["main", "m", True, "", 0]],
        "samples": [[[0], [1.0], False, {}]],
    }
    return whole | changes


def test_the_document_that_the_refusals_change_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(gzip.compress(json.dumps(document()).encode()))
    assert load_profile(path).total("live") == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "dballoc profile 2"}, "format"),
        ({"samples": [[[1], [1.0], False, {}]]}, "a frame that is not listed"),
        ({"samples": [[[-1], [1.0], False, {}]]}, "samples.0.0.0"),
        ({"samples": [[[0], [1.0, 2.0], False, {}]]}, "2 numbers for 1 values"),
        ({"samples": [[[0], ["1"], False, {}]]}, "samples.0.1.0"),
        ({"values": [["a", "b", "c"], ["a", "b", "c"]]}, "the same key"),
        ({"values": []}, "values"),
        ({"extra": 1}, "extra"),
        ({"facts": {"a": 1}}, "facts.a"),
        ({"seconds": 1e999}, "seconds"),
    ],
)
def test_another_document_is_refused_in_one_line(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "p"
    path.write_bytes(gzip.compress(json.dumps(document(**changes)).encode()))
    with pytest.raises(UsageError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path}: not a profile of dballoc")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b"\xff", mtime=0),
    ],
)
def test_another_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_profile(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none", "cannot be read"),
        (tmp_path, "is a directory, not a plain file"),
    ):
        with pytest.raises(UsageError, match=message):
            load_profile(path)


def test_a_file_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dballoc.profile.formats.profile_file._LIMIT", 2**16)
    (tmp_path / "p").write_bytes(gzip.compress(b" " * 2**17))
    with pytest.raises(UsageError, match="unpacks to more than"):
        load_profile(tmp_path / "p")


@shared
@given(data=st.data())
def test_a_damaged_file_is_a_profile_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    """Damaged packed, and damaged inside."""
    path = tmp_path / "p"
    save_profile(heap(), path)
    packed = path.read_bytes()
    inside = data.draw(st.booleans())
    content = bytearray(gzip.decompress(packed) if inside else packed)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        if not content:
            content = bytearray(b"x")
    path.write_bytes(gzip.compress(content) if inside else bytes(content))
    refusal = ""
    try:
        load_profile(path)
    except UsageError as error:
        refusal = str(error)
    assert "\n" not in refusal
