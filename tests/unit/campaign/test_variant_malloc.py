"""What is said where the loader did not do as it was told."""

from pathlib import Path

import pytest

from dballoc.allocators.proof_of_use import NotProved
from dballoc.campaign.preparation import variant_malloc
from dballoc.campaign.preparation.variant_malloc import GlibcTooOld
from dballoc.servers.build import Build

BUILD = Build(
    family="mariadb",
    version="10.5.23-MariaDB",
    executable=Path("/s/usr/sbin/mariadbd"),
    basedir=Path("/s"),
    share=Path("/s/share"),
    plugins=None,
)
TOO_OLD = "the server does not run under it: /s/mariadbd: /s/libc.so.6: version `GLIBC_{}' not found (required by {})"
REMEDY = 'dballoc fetch glibc@2.41, and let the server run on it: server = { glibc = "2.41" }'


@pytest.mark.parametrize("who", ["/usr/lib/libjemalloc.so.2", "/s/usr/sbin/mariadbd"])
def test_a_c_library_that_is_too_old(who: str) -> None:
    error = variant_malloc.make_proof_error(
        "variant 'new'", NotProved(TOO_OLD.format("2.38", who)), BUILD, "libjemalloc.so.2"
    )
    assert isinstance(error, GlibcTooOld)
    assert error.needs == "2.38"
    assert str(error) == (
        f"variant 'new': {Path(who).name} needs glibc 2.38 or newer, and MariaDB 10.5.23 would run on an older one; {REMEDY}"
    )


def test_one_that_no_source_has_comes_without_remedy() -> None:
    error = variant_malloc.make_proof_error(
        "variant 'new'", NotProved(TOO_OLD.format("9.9", "/x.so")), BUILD, "x.so"
    )
    assert str(error).endswith("would run on an older one")


def test_anything_else_is_said_as_it_is() -> None:
    error = variant_malloc.make_proof_error(
        "variant 'new'", NotProved("malloc comes from /lib/libc.so.6"), BUILD, "libjemalloc.so.2"
    )
    assert (
        str(error)
        == "variant 'new': MariaDB 10.5.23 does not use libjemalloc.so.2: malloc comes from /lib/libc.so.6"
    )
