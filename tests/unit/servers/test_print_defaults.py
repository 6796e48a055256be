"""Option files copied for a server that may not read them: nothing of them is lost, nothing of
others is taken in.
"""

import os
from pathlib import Path

import pytest

from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.print_defaults import OptionFileCopies

OTHER = 12345


@pytest.fixture
def copies(tmp_path: Path) -> OptionFileCopies:
    (tmp_path / "copies").mkdir()
    return OptionFileCopies(tmp_path / "copies", ServerUser(None))


def flat(path: Path) -> str:
    """What a server reads, with includes in their places."""
    lines = []
    for line in path.read_text(errors="surrogateescape").split("\n"):
        included = Path(line.removeprefix("!include "))
        lines.append(flat(included) if line.startswith("!include ") and included.exists() else line)
    return "\n".join(filter(None, lines))


def test_what_is_included_comes_along_in_its_place(
    copies: OptionFileCopies, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    files = {
        "d/b.cnf": "[mysqld]\nb=1\n",
        "d/a.cnf": "[mysqld]\na=1\n",
        "d/no.txt": "x",
        "one": "[mysqld]\none=1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    main = tmp_path / "my.cnf"
    main.write_text(
        f"[client]\npassword=p\n!include {tmp_path}/one\n  !includedir {tmp_path}/d\n!include {tmp_path}/gone\n"
        f"!includedir {tmp_path}/nowhere\n[mysqld]\nlast=caf\xe9\n",
        encoding="latin-1",
    )
    copy = copies.add(main)
    assert flat(copy).splitlines() == [
        "[client]",
        "password=p",
        "[mysqld]",
        "one=1",
        "[mysqld]",
        "a=1",
        "[mysqld]",
        "b=1",
        f"!include {tmp_path}/gone",
        f"!includedir {tmp_path}/nowhere",
        "[mysqld]",
        "last=caf\udce9",
    ]
    assert {path.stat().st_mode & 0o777 for path in copies.directory.iterdir()} == {0o600}
    assert copies.as_written(f"error in {copy} at line: 1") == f"error in {main} at line: 1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("!include {0}/my.cnf\n", "option files include each other more than 10 deep"),
        ("!include {0}/pipe\n", "pipe: is a FIFO, not a plain file"),
        ("!include {0}/long\n", "long: not an option file"),
        ("!include {0}/open\n", "world-writable, so servers ignore it; chmod o-w"),
        ("!include /dev/zero\n", "/dev/zero: is a device, not a plain file"),
    ],
)
def test_what_is_refused(copies: OptionFileCopies, tmp_path: Path, text: str, says: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"#" * (1 << 20) + b"\n")
    (tmp_path / "open").write_text("[mysqld]\n")
    (tmp_path / "open").chmod(0o666)
    (tmp_path / "my.cnf").write_text(text.format(tmp_path))
    with pytest.raises(UsageError, match=says):
        copies.add(tmp_path / "my.cnf")


def test_a_file_of_others_is_not_taken_in_by_a_file_of_theirs(
    copies: OptionFileCopies, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it gives files away")
    main, secret, fine = tmp_path / "my.cnf", tmp_path / "secret", tmp_path / "fine"
    secret.write_text("[mysqld]\nroots=1\n")
    secret.chmod(0o600)
    fine.write_text("[mysqld]\nfine=1\n")
    main.write_text(f"!include {fine}\n")
    for path in (main, fine):
        os.chown(path, OTHER, OTHER)
    assert flat(copies.add(main)) == "[mysqld]\nfine=1"
    main.write_text(f"!include {secret}\n")
    with pytest.raises(
        UsageError,
        match=f"secret: belongs to user 0, but the option file that includes it belongs to user {OTHER}",
    ):
        copies.add(main)
