"""Certificates for an encrypted load."""

import datetime
import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509

from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import client, sysbench_command
from dballoc.servers.private.certificate_files import AUTHORITY, CLIENT, SERVER
from dballoc.servers.private.certificates import write_certificates
from dballoc.servers.private.command_line import Address


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_certificates(tmp_path, "10.0.0.1", ServerUser(None))


def test_one_authority_signs_the_servers_and_the_clients(directory: Path) -> None:
    authority, server, client_ = (
        x509.load_pem_x509_certificate((directory / name).read_bytes())
        for name in (AUTHORITY, SERVER, CLIENT)
    )
    for each in (authority, server, client_):
        each.verify_directly_issued_by(authority)
        begin, end = each.not_valid_before_utc, each.not_valid_after_utc
        assert begin < datetime.datetime.now(datetime.UTC) < end - datetime.timedelta(days=30)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.1")]
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_an_address_with_certificates_is_encrypted(directory: Path) -> None:
    plain = Address(Path("/run/s.sock"), 3307)
    encrypted = Address(Path("/run/s.sock"), 3307, certificates=directory)
    assert "mysql-ssl" not in sysbench_command.connection_options(plain, "")
    assert sysbench_command.connection_options(encrypted, "")["mysql-ssl"] == "on"
    for address, has in ((plain, False), (encrypted, True)):
        path = client.option_file(directory, address, "", ServerUser(None))
        assert (f"ssl-ca={directory}/cacert.pem" in path.read_text()) == has
