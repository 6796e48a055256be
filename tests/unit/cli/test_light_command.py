"""Command lines are read without pydantic, and PyMySQL is imported without cryptography: with the
values, refusals and passwords that there are with them.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from dballoc.cli.light_command import LightCommand, LightGroup

# Of a TCP connection without TLS, to a server with a key: as PyMySQL calls it.
ENCRYPT = """
import sys
from dballoc.cli.late_cryptography import postpone_cryptography
postpone_cryptography()
import pymysql, pymysql._auth as auth
assert "cryptography" not in sys.modules
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
pem = key.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
oaep = padding.OAEP(mgf=padding.MGF1(algorithm=hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
for _ in range(2):
    sent = key.decrypt(auth.sha2_rsa_encrypt(b"secret", bytes(20), pem), oaep)
    assert sent == b"secret\\0", sent
"""


def run(words: Sequence[str], command: Any, group: Any) -> tuple[int, str, Any]:
    """Exit status and output of a small verb, and what it got."""
    got: list[Any] = []
    app = typer.Typer(cls=group)
    app.callback()(lambda: None)

    def verb(
        text: str = "5s",
        path: Path | None = None,
        pid: Annotated[int | None, typer.Option(min=1, max=4_000_000)] = None,
        share: Annotated[float, typer.Option(min=0.1)] = 1.0,
        words: list[str] | None = None,
        pair: tuple[Path, Path] | None = None,
        flag: bool = False,
    ) -> None:
        got.append((text, path, pid, share, words, pair, flag))

    app.command("verb", cls=command)(verb)
    result = CliRunner().invoke(app, ["verb", *words])
    return result.exit_code, result.output, got


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--text 7 --pid 12 --share 2 --flag",
        "--text= --pid 007 --path x --words a --words b --pair a b --share 1e3",
        "--pid 0",
        "--pid 4000001",
        "--pid -1",
        "--pid +5",
        "--pid 1_0",
        "--pid ٣",
        "--pid 1.0",
        "--pid x",
        f"--pid {'9' * 5000}",
        "--share 0",
        "--share x",
        "--pair a",
        "--unknown",
        "--help",
    ],
)
def test_values_and_refusals_are_those_of_typer(line: str) -> None:
    ours = run(line.split(), LightCommand, LightGroup)
    assert ours == run(line.split(), None, None)
    assert bool(ours[2]) == (ours[0] == 0 and line != "--help")


def test_a_password_is_encrypted_after_all(package_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENCRYPT],
        env={"PYTHONPATH": str(package_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
