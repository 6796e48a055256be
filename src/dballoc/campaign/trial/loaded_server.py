"""A server with its client, one of several that are alive at once in a trial."""

import contextlib
from collections.abc import Iterator, Sequence

import pymysql

from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext
from dballoc.campaign.trial.solo_trial import explain_client_failure
from dballoc.experiment.trial_steps import list_warmup_statements
from dballoc.instruments.process_sampler import ProcessGone, ProcessSample, sample_in_background
from dballoc.load import client
from dballoc.load.client_output import IntervalReport


class ServerFailed(Exception):
    """A server of the trial has a fault, which is in its record."""


class LoadedServer:
    """A server with its client, once there is one."""

    def __init__(self, life: ServerLife) -> None:
        self.life = life
        self.client: client.Client | None = None
        self.intervals: list[IntervalReport] = []

    @contextlib.contextmanager
    def note_faults(self, when: str) -> Iterator[None]:
        """Note a fault in this block as this server's. Raises ServerFailed then."""
        try:
            yield
        except Fault as fault:
            self.life.note_fault(fault)
        except ProcessGone:
            self.life.note_fault(self.life.explain_death(when))
        except pymysql.Error as error:
            self.life.note_fault(self.life.explain_refusal(error, when, "SHOW GLOBAL STATUS"))
        else:
            return
        raise ServerFailed

    def check(self, when: str) -> None:
        """Collect the client's reports. Raises Fault if the server or its client has ended."""
        self.life.check_alive(when)
        if self.client:
            self.intervals += self.client.reports()
            if ended := self.client.wait(0):
                try:
                    self.client.result(ended)
                except client.ClientFailed as error:
                    raise explain_client_failure(self.life, when, error) from None
                raise Fault("client", f"{when}: {self.client.program} ended early")

    def note_memory_peak(self) -> None:
        """Note the server's highest RSS so far: at the end it may be gone."""
        trial = self.life.record.trial
        trial.rss_peak = max(trial.rss_peak or 0, self.life.sampler.sample().peak)


@contextlib.contextmanager
def cleaning_up(servers: Sequence[LoadedServer]) -> Iterator[None]:
    """Stop what still runs of all servers, and remove their scratch data, when this block ends; of
    the others, too, where one of them cannot.
    """
    with contextlib.ExitStack() as ends:
        for server in servers:
            ends.callback(server.life.clean_up)
        yield


def warm_up_by_sql(context: TrialContext, server: LoadedServer) -> None:
    """Run the experiment's statements on a server. Raises ServerFailed."""
    setting = context.setting
    for sql in list_warmup_statements(setting.experiment, setting.contents.tables):
        with server.note_faults(sql):
            samples: list[ProcessSample] = []
            try:
                with sample_in_background(server.life.sampler.sample) as samples:
                    server.life.running.admin.scan(sql)
            except pymysql.Error as error:
                server.life.record.trial.rss_peak = max((s.peak for s in samples), default=None)
                raise server.life.explain_refusal(error, sql, "warmup_sql") from None
