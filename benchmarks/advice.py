"""Whether each advice of `dballoc explain` helps on a server where it is given.

    python benchmarks/advice.py [--only "MALLOC_ARENA_MAX,…"]

Each trial is a server with a condition made by construction. It prints a line of the table of
docs/advice.md: the condition, the advice, whether explain gave it there and which number it named,
and RSS before and after it was followed: at once, or on a second server that was started with it
and had the same load. The exit status is 1 if an advice was not given, or did not help.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from planted_causes import (
    BLOCK,
    SESSIONS,
    _connect,
    _execute,
    _prepare_statements,
    _send_packets,
)
from report_cases.private_server import PrivateServer, Workshop

from dballoc.allocators import find_library
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.numbers import with_unit

MIB = 1 << 20
Load = Callable[[PrivateServer, ExitStack], None]
SCHEMA = ("--performance-schema=ON", "--performance-schema-instrument=memory/%=ON")
# An advice helps if RSS is smaller by so many bytes.
LEAST = 4 * MIB


@dataclass(frozen=True, kw_only=True)
class Trial:
    """``advice``: a pattern of its text; ``condition``: in words; ``load``: makes it; ``follow``:
    follows the advice on the running server, or ``environment`` and ``options`` are those of a
    second server that follows it; ``start`` and ``start_options``: those of the first; ``young``:
    the advice is given after an hour only.
    """

    advice: str
    condition: str
    load: Load
    malloc: str = "glibc"
    start: Mapping[str, str] = field(default_factory=dict)
    start_options: tuple[str, ...] = ()
    follow: Callable[[PrivateServer], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    young: bool = False


def work_in_turn(server: PrivateServer, held: ExitStack) -> None:
    """Let 32 sessions need 30 MB each, one after the other, and give it back; tables that stay open
    lie behind it.
    """
    server.query("CREATE DATABASE a")
    sessions = [_connect(server, held) for _ in range(32)]
    for i, session in enumerate(sessions):
        names = [f"@v{n}" for n in range(500)]
        _execute(session, "SET " + ", ".join(f"{name} = REPEAT('x', 60000)" for name in names))
        _execute(session, f"CREATE TABLE t{i} (a INT)", f"HANDLER t{i} OPEN")
        _execute(session, "SET " + ", ".join(f"{name} = NULL" for name in names))
    time.sleep(3)


def send_large_values(server: PrivateServer, held: ExitStack) -> None:
    """Let 12 sessions have a value of 15 MB each, and end."""
    server.query("CREATE DATABASE a")
    with ExitStack() as sessions:
        for _ in range(SESSIONS):
            _execute(_connect(server, sessions), f"SET @a = REPEAT('x', {BLOCK})")
    time.sleep(2)


def prepare(server: PrivateServer, held: ExitStack) -> None:
    """Let a session prepare 6,000 statements."""
    server.query("CREATE DATABASE a")
    _prepare_statements(server, held)


def send_packets(server: PrivateServer, held: ExitStack) -> None:
    """Let 12 sessions send a packet of 14 MB each, and stay."""
    server.query("CREATE DATABASE a")
    _send_packets(server, held)


def connect_often(server: PrivateServer, held: ExitStack) -> None:
    """Let 64 sessions come, and go."""
    with ExitStack() as sessions:
        for _ in range(64):
            _execute(_connect(server, sessions, database=None), "SELECT 1")


def leave(server: PrivateServer, held: ExitStack) -> None:
    """Do nothing: what has memory is there from the start."""


def renew_connections(server: PrivateServer) -> None:
    """End all sessions, as a pooler that renews its connections does, and trim: malloc keeps what
    they had.
    """
    sessions = server.query("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep'")
    server.query(*(f"KILL {session}" for (session,) in sessions))
    time.sleep(1)
    trim(server)


def set_global(statement: str) -> Callable[[PrivateServer], None]:
    """Return what sets a variable of the running server."""

    def follow(server: PrivateServer) -> None:
        server.query(f"SET GLOBAL {statement}")

    return follow


def trim(server: PrivateServer) -> None:
    """Follow the advice to trim."""
    server.run_dballoc("explain", "--socket", server.socket, "--install-function", "--yes")
    ended = server.run_dballoc("explain", "--socket", server.socket, "--trim", "--yes")
    if ended.returncode:
        raise Failure(ended.stderr.strip())


def library(malloc: str) -> dict[str, str]:
    """Return what makes a server run on a malloc."""
    if malloc == "glibc":
        return {}
    return {"LD_PRELOAD": str(find_library.find_allocator(malloc).libraries[0])}


TRIALS = [
    *(
        Trial(
            advice="--trim",
            condition="32 sessions worked in turn",
            load=work_in_turn,
            malloc=malloc,
            follow=trim,
        )
        for malloc in ("glibc", "jemalloc", "tcmalloc", "mimalloc")
    ),
    Trial(
        advice="MALLOC_ARENA_MAX=2",
        condition="32 sessions worked in turn",
        load=work_in_turn,
        environment={"MALLOC_ARENA_MAX": "2"},
    ),
    Trial(
        advice="dirty_decay_ms:1000",
        condition="32 sessions worked in turn",
        load=work_in_turn,
        malloc="jemalloc",
        environment={"MALLOC_CONF": "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0"},
    ),
    Trial(
        advice="TCMALLOC_RELEASE_RATE=10",
        condition="32 sessions worked in turn",
        load=work_in_turn,
        malloc="tcmalloc",
        environment={"TCMALLOC_RELEASE_RATE": "10"},
    ),
    Trial(
        advice="TCMALLOC_AGGRESSIVE_DECOMMIT=1",
        condition="32 sessions worked in turn",
        load=work_in_turn,
        malloc="tcmalloc",
        environment={"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"},
    ),
    Trial(
        advice="TCMALLOC_AGGRESSIVE_DECOMMIT=1",
        condition="12 sessions with a value of 14 MB each have ended",
        load=send_large_values,
        malloc="tcmalloc",
        environment={"TCMALLOC_AGGRESSIVE_DECOMMIT": "1"},
    ),
    Trial(
        advice="MIMALLOC_PURGE_DELAY=0",
        condition="32 sessions worked in turn",
        load=work_in_turn,
        malloc="mimalloc",
        environment={"MIMALLOC_DECOMMIT_DELAY": "0", "MIMALLOC_PURGE_DELAY": "0"},
    ),
    Trial(
        advice="MALLOC_ARENA_MAX=8",
        condition="32 sessions worked in turn, on one of two CPUs",
        load=work_in_turn,
        prefix=("taskset", "-c", "0"),
        environment={"MALLOC_ARENA_MAX": "8"},
    ),
    Trial(
        advice="thp:never",
        condition="64 sessions came and went, THP asked for by jemalloc",
        load=connect_often,
        malloc="jemalloc",
        start={"MALLOC_CONF": "thp:always,narenas:64"},
        environment={"MALLOC_CONF": "narenas:64,thp:never"},
    ),
    Trial(
        advice="close prepared statements",
        condition="a session with 6,000 prepared statements",
        load=prepare,
        start_options=("--max-prepared-stmt-count=100000",),
        follow=renew_connections,
    ),
    Trial(
        advice="renew its connections",
        condition="12 sessions sent 14 MB each",
        load=send_packets,
        start_options=("--max-allowed-packet=64M",),
        follow=renew_connections,
    ),
    Trial(
        advice="performance_schema=OFF",
        condition="performance_schema on, with all memory instruments",
        load=leave,
        start_options=SCHEMA,
        options=("--performance-schema=OFF",),
    ),
    Trial(
        advice="key_buffer_size",
        condition="a key cache of 128 MiB (the default) that nobody uses",
        load=leave,
        follow=set_global("key_buffer_size = 1048576"),
        young=True,
    ),
    Trial(
        advice="aria_pagecache_buffer_size",
        condition="an Aria page cache of 1 GiB that nobody uses",
        load=leave,
        start_options=("--aria-pagecache-buffer-size=1G",),
        options=("--aria-pagecache-buffer-size=16M",),
        young=True,
    ),
]


def read_advice(server: PrivateServer, pattern: str) -> str:
    """Return the remedy that has a pattern, "" if none is given."""
    return next(
        (
            remedy
            for verdict in server.explain()["verdicts"]
            for remedy in verdict["remedies"]
            if re.search(pattern, remedy)
        ),
        "",
    )


def run_trial(trial: Trial, workshop: Workshop) -> tuple[str, int, int]:
    """Return the advice as it was given, and RSS before and after it was followed."""
    start = library(trial.malloc) | dict(trial.start)
    with (
        workshop.start(
            "mariadb", *trial.start_options, environment=start, prefix=trial.prefix
        ) as server,
        ExitStack() as held,
    ):
        trial.load(server, held)
        if trial.malloc != "glibc":
            server.run_dballoc("explain", "--socket", server.socket, "--install-function", "--yes")
        advice = read_advice(server, trial.advice)
        before = server.measure_rss()
        if trial.follow:
            trial.follow(server)
            time.sleep(0.5)
            return advice, before, server.measure_rss()
    environment = library(trial.malloc) | dict(trial.environment)
    with (
        workshop.start(
            "mariadb", *trial.options, environment=environment, prefix=trial.prefix
        ) as server,
        ExitStack() as held,
    ):
        trial.load(server, held)
        return advice, before, server.measure_rss()


def format_row(trial: Trial, advice: str, before: int, after: int) -> str:
    """Return a line of the table."""
    estimate = re.search(r"(?:about|up to) ([\d.,]+ [KMG]iB)", advice)
    named = estimate[0] if estimate else "no number" if advice else "not given"
    named = "after an hour" if trial.young else named
    return (
        f"| {trial.malloc} | {trial.condition} | {trial.advice} | {named} | {with_unit(before)} | "
        f"{with_unit(after)} | {with_unit(before - after) if before >= after else 'more'} |"
    )


def main() -> int:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="of advice with one of these in it")
    words = [word for word in parser.parse_args().only.split(",") if word]
    print(
        "| malloc | where | advice | it named | RSS before | after | given back |\n"
        "| --- | --- | --- | --: | --: | --: | --: |",
        flush=True,
    )
    useless = 0
    with tempfile.TemporaryDirectory(prefix="advice-") as place:
        workshop = Workshop(Path(place))
        for trial in TRIALS:
            if words and not any(word in trial.advice for word in words):
                continue
            try:
                advice, before, after = run_trial(trial, workshop)
            except (Failure, UsageError) as error:
                print(f"| {trial.malloc} | {trial.condition} | {trial.advice} | {error} | | | |")
                useless += 1
                continue
            print(format_row(trial, advice, before, after), flush=True)
            useless += (not advice and not trial.young) or before - after < LEAST
    return 1 if useless else 0


if __name__ == "__main__":
    sys.exit(main())
