"""The primary of a replica that is measured: a helper server of the same build with its own malloc.

Its failure is no fault of a variant, so it ends the campaign, which can be resumed.
"""

import os
import signal
from pathlib import Path

import pymysql

from dballoc.allocators import server_environment
from dballoc.campaign.preparation.prepare_variant import PreparedVariant
from dballoc.ground.errors import Failure
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Child, Custody
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import client
from dballoc.servers.private import command_line, private_server, replication
from dballoc.servers.private.certificates import write_certificates
from dballoc.servers.private.command_line import LOOPBACK, Address
from dballoc.servers.private.data_template import Template

_RESUME = "no variant is at fault, and the trial under way is lost; the same command resumes"


class Primary:
    """One start of a primary, on a copy of the data of its own: :meth:`start`,
    :meth:`wait_until_ready`, the load, :meth:`clean_up` at any point. Failure wherever it fails.

    ``prepared``: the variant of its replica, whose build and options it has; ``raw``: the directory
    of the trial's raw files.
    """

    def __init__(
        self,
        custody: Custody,
        user: ServerUser,
        prepared: PreparedVariant,
        template: Template,
        raw: Path,
    ) -> None:
        self.build = prepared.build
        self._password = template.password
        self._account: replication.Account | None = None
        self.log = raw / "primary.log"
        self._custody = custody
        self._user = user
        self._prepared = prepared
        self._template = template
        self._copy_log = raw / "primary-copy.log"
        self._child: Child | None = None
        self._running: private_server.Running | None = None
        self._scratch = directories.make_server_scratch(custody.scratch, user)
        self._run = directories.make_run_directory(custody.scratch)
        self._private = directories.make_run_directory(custody.scratch)

    @property
    def account(self) -> replication.Account:
        """How its replica logs in, once :meth:`start` has returned."""
        assert self._account
        return self._account

    def start(self) -> None:
        """Copy the data and start the server without waiting for it."""
        self._user.share(self._run)
        self._user.show(self._private)
        data = self._scratch / "data"
        try:
            self._template.copy(self._custody, data, self._copy_log, self._user)
            remove_tree(data / replication.IDENTITY)
        except OSError as error:
            raise Failure(f"the primary's data cannot be copied to {data}: {error}") from None
        port = private_server.free_port()
        self._account = replication.make_account(port)
        is_encrypted = self._prepared.server.connect == "tls"
        self._address = Address(
            self._run / "mysqld.sock",
            port,
            certificates=write_certificates(self._private, LOOPBACK, self._user)
            if is_encrypted
            else None,
        )
        options = replication.make_primary_options(self.build, self._prepared.options)
        cpus = self._prepared.client_cpus
        self._launch = private_server.ServerLaunch(
            argv=command_line.command(self.build, data, self._address, options),
            env=server_environment.remove_allocator_variables(os.environ),
            address=self._address,
            log=self.log,
            password=self._password,
            user=self._user,
            cpus=cpus,
            nofile=self._prepared.nofile,
        )
        self._child = private_server.spawn(self._custody, self._launch)

    def wait_until_ready(self, patience: float, database: str) -> None:
        """Wait until it answers, and begin its binary log."""
        assert self._child
        try:
            self._running = private_server.answering(self._child, self._launch, patience, database)
            replication.begin_binary_log(self.build, self._running.admin, self.account)
        except private_server.StartFailed as error:
            raise Failure(f"the primary: {error}: {self._last_word()}; {_RESUME}") from None
        except pymysql.Error as error:
            raise self._explain(error, "its start") from None

    def count_committed(self, when: str) -> int:
        """Return how many transactions it has committed; ``when``: for the message of a failure."""
        assert self._running
        try:
            return replication.count_committed(self.build, self._running.admin)
        except pymysql.Error as error:
            raise self._explain(error, when) from None

    def check_alive(self, when: str, patience: float = 0.0) -> None:
        """Raises Failure if it has ended, or does within ``patience`` seconds."""
        if self._child and (ended := self._child.wait(patience)):
            raise Failure(
                f"the replica's primary died at {when} ({ended.words}): {self._last_word()}; "
                f"{_RESUME}"
            )

    def explain_client(self, when: str, error: client.ClientFailed) -> Failure:
        """Return why a client of it failed."""
        self.check_alive(when, 2.0)
        return Failure(f"{when}: a client of the replica's primary: {error}; {_RESUME}")

    def write_client_files(self) -> client.Places:
        """Write what leads clients to it; see
        :meth:`dballoc.campaign.trial.server_in_trial.ServerLife.write_client_files`.
        """
        by_socket = self._prepared.server.connect == "socket"
        address = Address(self._address.socket) if by_socket else self._address
        connection = client.connection_file(self._private, address, self._password, self._user)
        return client.Places(connection, self._run)

    def clean_up(self) -> None:
        """Stop it and remove its data. Safe to call at any point."""
        try:
            if self._running:
                self._running.admin.close()
            if self._child:
                self._child.stop(signal.SIGKILL, 0)
        finally:
            for path in (self._scratch, self._run, self._private):
                remove_directory(path)

    def _explain(self, error: pymysql.Error, when: str) -> Failure:
        self.check_alive(when, 2.0)
        return Failure(f"the replica's primary, at {when}: {error.args[-1]}; {_RESUME}")

    def _last_word(self) -> str:
        return private_server.last_word(self.log)
