"""Which files an encrypted load takes, and who gets which."""

from pathlib import Path

# sysbench looks for these in its working directory (drv_mysql.c).
AUTHORITY, CLIENT, CLIENT_KEY = "cacert.pem", "client-cert.pem", "client-key.pem"
SERVER, SERVER_KEY = "server-cert.pem", "server-key.pem"
FOR_CLIENTS = (AUTHORITY, CLIENT, CLIENT_KEY)


def read_client_files(directory: Path | None) -> dict[str, str]:
    """Return the text of each file that a client needs, by its name; nothing without any."""
    if directory is None:
        return {}
    return {name: (directory / name).read_text(encoding="ascii") for name in FOR_CLIENTS}


def list_server_options(directory: Path) -> dict[str, str]:
    """Return the options with which a server uses the files in ``directory``."""
    names = {"ssl-ca": AUTHORITY, "ssl-cert": SERVER, "ssl-key": SERVER_KEY}
    return {option: str(directory / name) for option, name in names.items()}
