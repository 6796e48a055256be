"""Names that belong to whoever ran the campaign, and values of secrets, replaced before anything is
printed. Pure.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.experiment.post import CLOSED_KEYS
from dballoc.experiment.secret_names import HIDDEN, hide_argument, hide_secrets, is_secret
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.store.facts import format_facts, parse_environment

HOST, USER, DOMAIN = "HOST", "USER", "DOMAIN"

# Names that identify nobody; replacing them would damage every other text.
_NOBODY = frozenset(
    {
        "localhost",
        "127.0.0.1",
        "::1",
        "root",
        "mysql",
        "mariadb",
        "nobody",
        "daemon",
        "admin",
        "user",
        "host",
        "server",
        "client",
        "debian",
        "ubuntu",
        "sbtest",
        "test",
        "innodb",
        "rocksdb",
        "aria",
        "myisam",
        "apart",
        "always",
        "madvise",
        "never",
        "socket",
        "tcp",
        "tls",
        "rising",
        "fresh",
        "cycle",
        "uniform",
        "gaussian",
        "special",
        "pareto",
    }
)

# Directories whose files are the same in every distribution.
_SYSTEM = re.compile(
    r"/(?:usr/(?:bin|sbin|lib|lib32|lib64|libexec|share)|bin|sbin|lib|lib32|lib64|proc|sys|dev)(?:/|$)"
)
_PATH = re.compile(r"(?<![\w.…/~@+-])~?(?:/[\w.+@~%,-]+)+/?")
_HOME = re.compile(r"/(?:home|Users)/([^/\s\"':;,]+)")
_BUILDER = re.compile(r"(Linux version \S+ )\([^()\s]+@[^()\s]+\)")
_IP_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
_ADDRESS = re.compile(r"\b[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}\b")


class Redaction:
    """One report's replacements; the same name is replaced by the same word everywhere."""

    def __init__(
        self,
        hosts: Iterable[str | tuple[str, ...]],
        users: Iterable[str],
        directories: Iterable[str] = (),
    ) -> None:
        """``hosts``: a name of each, or all its names; of several each has a number, in their
        order. ``directories`` are known to be paths, whatever characters they hold.
        """
        names: dict[str, str] = {}
        several = dict.fromkeys((host,) if isinstance(host, str) else host for host in hosts)
        for number, of_host in enumerate(several, 1):
            word = f"{HOST} {number}" if len(several) > 1 else HOST
            for host in of_host:
                short, _, domain = host.partition(".")
                is_name = "(" not in host and not _IP_ADDRESS.fullmatch(host)
                parts = {short: word} | ({domain: DOMAIN} if "." in domain else {})
                # Two hosts may have one name: then it is the first one's.
                names = {host: word} | (parts if is_name else {}) | names
        # DOMAIN\user and user@realm are one name each for the system.
        names |= {part: USER for user in users for part in (user, *re.split(r"[\\@]", user))}
        self._names = {
            k.lower(): v for k, v in names.items() if len(k) > 1 and k.lower() not in _NOBODY
        }
        longest_first = sorted(map(re.escape, self._names), key=len, reverse=True)
        # With no name at all, a pattern that matches nowhere.
        words = "|".join(longest_first) or r"(?!)"
        self._word = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)
        private = {d.rstrip("/") for d in directories if not _SYSTEM.match(d)}
        self._directories = sorted(filter(None, private), key=len, reverse=True)

    def redact_text(self, text: str) -> str:
        """Return ``text`` with names and paths replaced, and values of secrets hidden; of a path
        the last part stays.
        """
        text = hide_secrets(text)
        for directory in self._directories:
            text = text.replace(directory + "/", "…/")
        text = _BUILDER.sub(rf"\1({USER}@{HOST})", text)
        text = _ADDRESS.sub(f"{USER}@{DOMAIN}", text)
        text = _PATH.sub(self._shorten, text)
        return self._word.sub(lambda m: self._names[m[0].lower()], text)

    def redact_values(self, value: Any) -> Any:
        """Return every string within JSON or facts, and the value of every key that is a secret's
        name; keys stay.
        """
        match value:
            case StrEnum():
                return value
            case str():
                return self.redact_text(value)
            case list() | tuple():
                return type(value)(
                    self.redact_values(hide_argument(v) if isinstance(v, str) else v) for v in value
                )
            case dict():
                return {
                    k: HIDDEN if v and is_secret(str(k)) else self.redact_values(v)
                    for k, v in value.items()
                }
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{k: self.redact_values(v) for k, v in vars(value).items()})
        return value

    def _shorten(self, match: re.Match[str]) -> str:
        path = match[0]
        if _SYSTEM.match(path) or (path.count("/") == 1 and not path.startswith("~")):
            return path
        return f"…/{PurePosixPath(path).name}"


def redact_campaign(campaign: Campaign, redaction: Redaction | None = None) -> Campaign:
    """Return the campaign without names of host, users and paths. Numbers, and the variants' names
    and settings, stay. ``redaction``: the replacements of a report on several campaigns.
    """
    redaction = redaction or find_private_names([campaign])
    experiment = _redact_experiment(campaign.experiment, redaction)
    environment = replace(redaction.redact_values(campaign.environment), host=HOST)
    facts = replace(
        redaction.redact_values(campaign.facts),
        experiment=experiment_file.format_experiment(experiment),
        environment=environment,
    )
    return replace(
        campaign,
        facts=facts,
        experiment=experiment,
        environment=environment,
        variant=_redact_frame(campaign.variant, redaction, ("libraries", "environment", "command")),
        block=_redact_frame(campaign.block, redaction),
        host=_redact_frame(campaign.host, redaction, ("environment",)),
        placement=_redact_frame(campaign.placement, redaction),
        duet_block=_redact_frame(campaign.duet_block, redaction),
        rotation_block=_redact_frame(campaign.rotation_block, redaction),
        **{
            name: _redact_frame(getattr(campaign, name), redaction, ("proof",))
            for name in ("trial", "duet", "pilot", "rotation")
        },
    )


def find_private_names(campaigns: Sequence[Campaign], directories: Iterable[str] = ()) -> Redaction:
    """Return the replacements: for names that dballoc noted, also of the hosts that ran the blocks,
    for every home directory mentioned, and for what lies in ``directories``.
    """
    hosts: list[tuple[str, ...]] = []
    users: list[str] = []
    paths = [*directories]
    for campaign in campaigns:
        # Of a host's part of a campaign, the fact is still the driver's.
        noted = [campaign.environment, campaign.facts.environment]
        for host, text in sorted(campaign.host.select("host", "environment").iter_rows()):
            noted.append(parse_environment(text, "host.environment"))
            hosts.append(_list_names(host, noted[-1].host))
        users += [e.user or "" for e in noted] + [campaign.facts.server_user]
        for environment in noted[:2]:
            name = environment.host
            if name and not any(name in names for names in hosts):
                hosts.append((name,))
        texts = [
            *format_facts(vars(campaign.facts)).values(),
            *_list_texts(campaign.variant),
            *_list_texts(campaign.trials),
        ]
        users += [name for text in texts for name in _HOME.findall(text)]
        paths += _list_directories(campaign)
    return Redaction(hosts, users, paths)


def _list_names(host: str, own_name: str | None) -> tuple[str, ...]:
    """Return the names of a host that ran blocks: in the store it is ``NAME (ADDRESS)``."""
    address = host.rpartition(" (")[2].removesuffix(")") if host.endswith(")") else ""
    return tuple(dict.fromkeys(filter(None, (host, own_name, address))))


def _list_directories(campaign: Campaign) -> Iterator[str]:
    """Yield the directories of everything that is a path by its place: they may hold blanks."""
    e = campaign.experiment
    paths = [
        e.server.basedir,
        *(v.server.basedir for v in e.variant),
        *(p for v in e.variant for p in v.preload),
    ]
    for libraries, command in campaign.variant.select("libraries", "command").iter_rows():
        paths += json.loads(libraries)
        paths += [word.partition("=")[2] or word for word in json.loads(command)]
    for path in paths:
        if path and path.startswith("/"):
            yield str(PurePosixPath(path).parent)


def _redact_experiment(experiment: Experiment, redaction: Redaction) -> Experiment:
    """Return the experiment redacted. Values that only a closed list allows are in :data:`_NOBODY`,
    or are put back, so that the outcome is a valid experiment again.
    """
    table = experiment.model_dump(mode="json")
    redacted = redaction.redact_values(table)
    if redacted["post"] is not None:
        redacted["post"] |= {key: table["post"][key] for key in CLOSED_KEYS}
    return Experiment.model_validate(redacted)


def _list_texts(frame: pl.DataFrame) -> Iterator[str]:
    for name, kind in frame.schema.items():
        if kind == pl.String:
            yield from frame[name].drop_nulls()


def _redact_frame(
    frame: pl.DataFrame, redaction: Redaction, json_columns: tuple[str, ...] = ()
) -> pl.DataFrame:
    def each(column: str) -> Callable[[str], str]:
        return (
            (lambda text: json.dumps(redaction.redact_values(json.loads(text))))
            if column in json_columns
            else redaction.redact_text
        )

    changed = [
        pl.Series(
            name, [None if v is None else each(name)(v) for v in frame[name]], dtype=pl.String
        )
        for name, kind in frame.schema.items()
        if kind == pl.String
    ]
    return frame.with_columns(changed)
