"""``dballoc explain`` on a real server in a cgroup of ours: its memory limit, its CPU limit beside
the CPUs that malloc counts, the largest pool that is safe; and advice that takes from nobody what
is in use.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from harness import BIN, Cli, Launch, wait_until

from dballoc.catalogue import verdicts as limits
from dballoc.explain import explanation
from dballoc.explain.verdicts import verdicts
from dballoc.ground.errors import UsageError
from dballoc.host.process.handle import Process
from dballoc.host.resources import cgroup, cgroup_memory
from dballoc.host.resources.cgroup_tree import ControlGroups
from dballoc.servers.running.credentials import Credentials

MIB = 1 << 20
LIMIT = 400 * MIB
POOL = 64 * MIB
KEYS = 64 * MIB
LOGIN = Credentials(user="root")


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Here servers outlive a test on purpose; the module's own fixture ends them."""


@dataclass(frozen=True)
class Confined:
    """A server in cgroups of its own; ``has_cpu``: one of them limits its CPU time, to one CPU."""

    pid: int
    socket: Path
    has_cpu: bool


class NoCustody:
    """Here the fixture removes the cgroup."""

    def cgroup(self, path: Path) -> None:
        """Take no note of it."""


def make_cpu_cgroup(memory: cgroup.MemoryCgroup) -> Path | None:
    """A group with the time of one CPU: the same in v2, where it has the controller; else v1's."""
    if memory.version == 2:
        if not (memory.path / "cpu.max").exists():
            return None
        (memory.path / "cpu.max").write_text("100000 100000")
        return memory.path
    top = Path("/sys/fs/cgroup/cpu")
    if not os.access(top, os.W_OK) or not (top / "cpu.cfs_quota_us").exists():
        return None
    path = top / f"dballoc-test-{uuid.uuid4().hex[:8]}"
    path.mkdir()
    (path / "cpu.cfs_quota_us").write_text("100000")
    return path


@pytest.fixture(scope="module")
def groups(needs_root: None) -> Iterator[tuple[cgroup.MemoryCgroup, Path | None]]:
    try:
        memory = cgroup.create_memory_cgroup(NoCustody(), LIMIT)  # type: ignore[arg-type]
    except UsageError as error:
        pytest.skip(f"needs a memory cgroup: {error}")
    cpu = make_cpu_cgroup(memory)
    yield memory, cpu

    def remove(path: Path) -> bool:
        try:
            path.rmdir()
        except OSError:
            return False  # its processes are about to end
        return True

    for path in {memory.path, cpu} - {None}:
        wait_until(lambda path=path: remove(path))


@pytest.fixture(scope="module")
def confined(
    groups: tuple[cgroup.MemoryCgroup, Path | None], home: Path, launch: Launch
) -> Confined:
    """With a table in InnoDB, and one in MyISAM whose index fills some of the key cache."""
    memory, cpu = groups
    place = Path(tempfile.mkdtemp(prefix="cgroup-", dir=home))
    (place / "data").mkdir()
    joined = " ".join(f"{path}/cgroup.procs" for path in {memory.path, cpu} - {None})
    process = launch(
        [
            *("sh", "-c", f'for file in {joined}; do echo $$ > $file; done; exec "$0" "$@"'),
            shutil.which("mariadbd", path=BIN) or "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={place / 'data'}",
            f"--socket={place / 's'}",
            f"--pid-file={place / 'p'}",
            "--skip-networking",
            "--skip-grant-tables",
            "--skip-log-bin",
            f"--innodb-buffer-pool-size={POOL}",
            "--innodb-log-file-size=4M",
            f"--key-buffer-size={KEYS}",
            "--performance-schema=ON",
        ],
        place,
        {},
    )
    with (
        pymysql.connect(unix_socket=str(place / "s"), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE DATABASE t")
        for engine in ("InnoDB", "MyISAM"):
            cursor.execute(f"CREATE TABLE t.{engine} (c CHAR(200) KEY) ENGINE={engine}")
            cursor.execute(
                f"INSERT INTO t.{engine} SELECT RPAD(MD5(seq), 200, MD5(seq)) FROM t.seq_1_to_30000"
            )
        cursor.execute("SELECT COUNT(*) FROM t.MyISAM FORCE INDEX (PRIMARY) WHERE c > '0'")
    return Confined(process.pid, place / "s", cpu is not None)


@pytest.fixture(scope="module")
def look(run_cli: Cli, confined: Confined) -> dict[str, Any]:
    done = run_cli("explain", "--socket", str(confined.socket), "--json")
    assert done.status == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def find_verdict(document: dict[str, Any], key: str) -> dict[str, Any] | None:
    return next((v for v in document["verdicts"] if v["key"] == key), None)


def test_the_working_set_is_the_kernels(
    look: dict[str, Any], groups: tuple[cgroup.MemoryCgroup, Path | None]
) -> None:
    group = look["evidence"]["cgroup"]
    assert group["name"] == str(groups[0].path)
    assert group["limit"] == look["room"]["limit"] == LIMIT
    v2 = groups[0].version == 2
    charged = int(
        (groups[0].path / ("memory.current" if v2 else "memory.usage_in_bytes")).read_text()
    )
    assert group["charged"] == pytest.approx(charged, rel=0.1)
    # What the server has for itself alone is charged to it.
    private = sum(line["resident"] for line in look["lines"] if line["group"] != "files")
    assert group["charged"] - group["inactive_file"] > 0.9 * private
    verdict = find_verdict(look, "limit")
    assert verdict
    assert verdict["level"] == "fine"
    assert "of 400 MiB" in verdict["headline"]


def test_the_largest_safe_pool_is_said_with_its_parts(look: dict[str, Any]) -> None:
    verdict = find_verdict(look, "limit")
    assert verdict
    [estimate] = [text for text in verdict["evidence"] if "largest buffer pool" in text]
    size = float(re.findall(r"about ([\d.]+) MiB \(estimate: limit 400 MiB", estimate)[0]) * MIB
    assert 0 < size < LIMIT - 40 * MIB


def test_glibc_counts_the_machines_cpus(look: dict[str, Any], confined: Confined) -> None:
    verdict = find_verdict(look, "arenas")
    if not confined.has_cpu or (os.cpu_count() or 1) < 2:
        pytest.skip("needs a cgroup with a CPU limit, and two CPUs")
    assert verdict
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    assert f"sized itself for {online} CPUs, the server may use 1" in verdict["headline"]
    assert f"up to {8 * online} arenas" in verdict["headline"]
    assert f"{look['evidence']['arenas']} arenas now" in verdict["evidence"][0]
    assert verdict["remedies"][0].startswith("MALLOC_ARENA_MAX=8 ")


def test_a_server_at_its_limit_is_told_so_before_it_is_killed(
    run_cli: Cli, confined: Confined
) -> None:
    """A session takes what is left but 8 %."""

    def read_share() -> float:
        memory = cgroup_memory.read_cgroup_memory(ControlGroups(Process.open(confined.pid)))
        assert memory
        return memory.working_set / LIMIT

    with (
        pymysql.connect(unix_socket=str(confined.socket)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET GLOBAL max_allowed_packet = 1073741824")
        for number in range(200):
            if read_share() > 0.92:
                break
            cursor.execute(f"SET @taken{number} = REPEAT('x', 4 * 1024 * 1024)")
        document = json.loads(run_cli("explain", "--pid", str(confined.pid), "--json").stdout)
    verdict = find_verdict(document, "limit")
    assert verdict
    assert verdict["level"] == "problem"
    assert "The cgroup's limit is near" in verdict["headline"]
    assert "raise the limit to about" in verdict["remedies"][0]


def test_the_key_cache_keeps_what_is_in_use(confined: Confined) -> None:
    """As if it had run for a day: what is advised is above what was in use before a backup emptied
    the cache, and it can be done.
    """
    day = {"uptime": 86400, "uptime_since_flush_status": 86400, "key_read_requests": 10**9}
    before = explanation.explain(Process.open(confined.pid), LOGIN).evidence.figures
    used = KEYS - before["key_blocks_unused"] * before["key_cache_block_size"] / 0.82
    assert used > 3 * MIB, "the index is not in the cache"
    with (
        pymysql.connect(unix_socket=str(confined.socket)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("FLUSH TABLES WITH READ LOCK")
    reading = explanation.explain(Process.open(confined.pid), LOGIN)
    figures = {**reading.evidence.figures, **day}
    assert figures["key_blocks_unused"] > before["key_blocks_unused"], "nothing was emptied"
    aged = reading.moment._replace(evidence=replace(reading.evidence, figures=figures))
    [verdict] = [
        v for v in verdicts.judge_moments([aged], reading.bounds, limits()) if v.key == "cache"
    ]
    assert "most of it is unused" in verdict.headline
    [remedy] = verdict.remedies
    size = int(remedy.split(" = ")[1].split(";")[0])
    assert 1.2 * used <= size < KEYS / 2
    assert "it costs" in remedy
    with (
        pymysql.connect(unix_socket=str(confined.socket), autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(remedy.split(";")[0])
        count = "SELECT COUNT(*) FROM t.MyISAM FORCE INDEX (PRIMARY) WHERE c > '0'"
        cursor.execute(count)
        cursor.execute("FLUSH STATUS")
        cursor.execute(count)
        cursor.execute("SHOW STATUS LIKE 'Key_reads'")
        assert cursor.fetchall() == (("Key_reads", "0"),), "the index does not fit any more"
        cursor.execute(f"SET GLOBAL key_buffer_size = {KEYS}")


def test_a_young_server_gets_no_advice_on_caches(look: dict[str, Any]) -> None:
    verdict = find_verdict(look, "cache")
    assert verdict is None or verdict["remedies"] == []


READ = """
import sys
from dballoc.host.process.handle import Process
from dballoc.host.resources.cgroup_tree import ControlGroups
from dballoc.host.resources import cgroup_memory, cgroup_tree, process_limits
process = Process.open(int(sys.argv[1]))
groups = cgroup_tree.ControlGroups(process)
limits = process_limits.read_limits(process, groups)
print(cgroup_memory.read_cgroup_memory(groups).limit, limits.memory)
"""


def test_the_group_of_a_container_beside_ours(needs_root: None) -> None:
    """Two containers of a pod, each in a cgroup namespace of its own and with its own mount."""
    groups = []
    try:
        for limit in (300 * MIB, 200 * MIB):
            groups.append(cgroup.create_memory_cgroup(NoCustody(), limit))  # type: ignore[arg-type]
    except UsageError as error:
        pytest.skip(f"needs a memory cgroup: {error}")
    # As container runtimes do: nothing of the host's own mount is left below it.
    mount = "mount -t tmpfs none /sys/fs/cgroup && " + (
        "mount -t cgroup2 none /sys/fs/cgroup"
        if groups[0].version == 2
        else "mkdir /sys/fs/cgroup/memory && mount -t cgroup -o memory none /sys/fs/cgroup/memory"
    )

    def start(group: cgroup.MemoryCgroup, *command: str) -> "subprocess.Popen[str]":
        script = f'echo $$ > {group.procs}; exec unshare --cgroup --mount sh -c \'{mount} && exec "$0" "$@"\' "$@"'
        return subprocess.Popen(
            ["sh", "-c", script, "sh", *command], stdout=subprocess.PIPE, text=True
        )

    server = start(groups[0], "sh", "-c", "echo ready; exec sleep 1000")
    try:
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        sidecar = start(groups[1], sys.executable, "-c", READ, str(server.pid))
        text, _ = sidecar.communicate(timeout=60)
        assert text == f"{300 * MIB} {300 * MIB}\n"
    finally:
        server.kill()
        server.communicate()
        for group in groups:
            wait_until(lambda group=group: not Path(group.procs).read_text())
            group.remove()


def test_memory_of_sessions_goes_with_their_connections(confined: Confined) -> None:
    """As is advised; no limit of a session is, because it would be above what the largest has."""
    with (
        pymysql.connect(unix_socket=str(confined.socket)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET GLOBAL max_allowed_packet = 1073741824")
        for number in range(5):
            cursor.execute(f"SET @own{number} = REPEAT('x', 15 * 1024 * 1024)")
        before = explanation.explain(Process.open(confined.pid), LOGIN)
    assert before.evidence.sessions_bytes > 70 * MIB
    [verdict] = [v for v in before.verdicts if v.key == "sessions"]
    assert "renew its connections" in " ".join(verdict.remedies)
    assert "max_session_mem_used" not in " ".join(verdict.remedies)
    wait_until(
        lambda: (
            explanation.explain(Process.open(confined.pid), LOGIN).evidence.sessions_bytes
            < 10 * MIB
        )
    )
