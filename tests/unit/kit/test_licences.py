"""Which package a carried file comes from."""

from pathlib import Path

from dballoc.kit.licences import list_names, parse_owners


def test_owners_of_files() -> None:
    text = (
        "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\n"
        "diversion by dash from: /bin/sh\n"
        "a, b:amd64: /usr/share/x\n"
        "dpkg-query: no path found matching pattern /opt/x\n"
    )
    assert parse_owners(text) == {"/lib/x86_64-linux-gnu/libc.so.6": "libc6", "/usr/share/x": "a"}


def test_a_file_is_looked_for_with_and_without_usr() -> None:
    assert Path("/usr/lib/x.so") in list_names(Path("/lib/x.so"))
    assert Path("/lib/x.so") in list_names(Path("/usr/lib/x.so"))
