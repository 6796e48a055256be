"""What a dead server's log is quoted with."""

from pathlib import Path

import pytest

from dballoc.servers.private.private_server import ending, first_error, last_word

STARTED = "2026-11-21 22:11:47 0 [Warning] Could not increase number of max_open_files to more than 13016\n"
REFUSED = "/usr/sbin/mariadbd: Can't change dir to '/d/' (Errcode: 13 \"Permission denied\")\n"
ABORTING = "2026-11-21 22:11:47 0 [ERROR] Aborting\n"
JEMALLOC = (
    "___ Begin jemalloc statistics ___\n"
    + 1000 * "  opt.prof_leak_error: false\n"
    + "--- End jemalloc statistics ---\n"
)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (STARTED + REFUSED + ABORTING + JEMALLOC, REFUSED),
        (STARTED + JEMALLOC, STARTED),
        (
            STARTED + "[ERROR] unknown variable 'x=1'\n" + ABORTING,
            "[ERROR] unknown variable 'x=1'\n",
        ),
        ("FATAL: no room\nbye\n", "FATAL: no room\n"),
        (
            "mariadbd got signal 11 ;\nThis could be an error\n" + JEMALLOC,
            "mariadbd got signal 11 ;\n",
        ),
    ],
    ids=["refused", "nothing wrong", "option", "fatal", "crash"],
)
def test_the_line_that_says_most(tmp_path: Path, log: str, says: str) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    assert last_word(path) == says.strip()


def test_an_empty_log(tmp_path: Path) -> None:
    assert last_word(tmp_path / "log") == f"{tmp_path / 'log'} is empty"


def test_its_end_is_the_servers_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(STARTED + REFUSED + ABORTING + JEMALLOC)
    assert ending(path) == (STARTED + REFUSED + ABORTING).rstrip()
    assert first_error(path) == "Aborting"
