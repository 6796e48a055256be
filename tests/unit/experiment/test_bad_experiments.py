"""The table of bad experiment files, each with the one line that it must give: file, key,
remedy.
"""

import re
from pathlib import Path

import pytest

from dballoc.experiment import experiment_file
from dballoc.ground.errors import UsageError

GOOD = """
name = "x"
baseline = "glibc"
workloads = ["oltp_read_only"]
threads = [1]
[server]
options = { innodb_buffer_pool_size = "64M" }
[time]
level = "10s"
[[variant]]
name = "glibc"
[[variant]]
name = "jemalloc"
allocator = "jemalloc"
"""

# What is replaced in the good file, by what, and the line after the file's name.
BAD = [
    # unknown keys
    ('name = "x"', 'naem = "x"', 'unknown key naem; did you mean "name"?'),
    ('level = "10s"', 'levle = "10s"', 'unknown key time.levle; did you mean "level"?'),
    (
        'level = "10s"',
        'zzz = "10s"',
        "unknown key time.zzz; known here: idle, level, settle, start, stop, warmup",
    ),
    (
        'allocator = "jemalloc"',
        'alocator = "jemalloc"',
        'variant "jemalloc": unknown key alocator; did you mean "allocator"?',
    ),
    (
        'allocator = "jemalloc"',
        "server = { engin = 1 }",
        'variant "jemalloc": unknown key server.engin; did you mean "engine"?',
    ),
    ('name = "jemalloc"', "bar = 1", "variant 2: name is missing"),
    # wrong units
    (
        'level = "10s"',
        "level = 10",
        'time.level: 10 is not a duration; write it with its unit, like "10s", "2m" or "500ms"',
    ),
    (
        'level = "10s"',
        "level = 10.5",
        'time.level: 10.5 is not a duration; write it with its unit, like "10s", "2m" or "500ms"',
    ),
    (
        'level = "10s"',
        'level = "10 parsecs"',
        'time.level: \'10 parsecs\' is not a duration; write it with its unit, like "10s", "2m" or "500ms"',
    ),
    (
        'level = "10s"',
        'level = "1s"',
        'time.level: a level lasts at least "2s": there is one sample a second',
    ),
    (
        "[time]",
        "[limits]\nmemory = 1000\n[time]",
        'limits.memory: 1000 is not a size; write it with its unit, like "256M" or "2G"',
    ),
    (
        "threads = [1]",
        'threads = [1]\nbudget = "20"',
        'budget: \'20\' is not a duration; write it with its unit, like "10s", "2m" or "500ms"',
    ),
    # numbers out of range
    (
        "threads = [1]",
        "threads = [0]",
        "threads[0]: input should be greater than or equal to 1, not 0",
    ),
    (
        "threads = [1]",
        "threads = []",
        "threads: list should have at least 1 item after validation, not 0, not []",
    ),
    (
        "threads = [1]",
        'threads = ["many"]',
        "threads[0]: input should be a valid integer, unable to parse string as an integer, not 'many'",
    ),
    ("threads = [1]", "threads = [4, 4]", "threads: the same value twice"),
    (
        "threads = [1]",
        "threads = [1]\nblocks = 0",
        "blocks: input should be greater than or equal to 1, not 0",
    ),
    (
        "[time]",
        "[data]\ntables = 0\n[time]",
        "data.tables: input should be greater than or equal to 1, not 0",
    ),
    (
        "[time]",
        "[data]\nrows = 0\n[time]",
        "data.rows: input should be greater than or equal to 1, not 0",
    ),
    (
        "[time]",
        "[noise]\nprobe = 1.0\n[time]",
        "noise.probe: input should be greater than 1, not 1.0",
    ),
    # names
    (
        'name = "jemalloc"',
        'name = "glibc"',
        "two variants are called 'glibc'; give each a name of its own",
    ),
    (
        'baseline = "glibc"',
        'baseline = "libc"',
        "baseline 'libc' is not a variant; there are glibc, jemalloc",
    ),
    ('baseline = "glibc"\n', "", "baseline is missing"),
    (
        'name = "jemalloc"',
        'name = "../up"',
        "variant \"../up\": name: '../up' is not a name; use letters, digits and ._+=@-, 64 at most",
    ),
    (
        'name = "x"',
        'name = "a/b"',
        "name: 'a/b' is not a name; use letters, digits and ._+=@-, 64 at most",
    ),
    # what a post states
    (
        "[server]",
        '[post]\nserver = "x"\nstatments = []\n[server]',
        'unknown key post.statments; did you mean "statements"?',
    ),
    (
        "[server]",
        '[post]\nserver = "x"\n[post.options]\nsync_binlog = 1\n[post.paragraphs]\nserver = "1"\n[server]',
        "post: paragraphs: none for 'options.sync_binlog'; name the paragraph of the post that it is from",
    ),
    (
        "[server]",
        '[post]\nserver = "x"\n[post.paragraphs]\nserver = "1"\nserver_cpus = "2"\n[server]',
        "post: paragraphs: 'server_cpus' is no statement of this post",
    ),
    (
        "[server]",
        '[post.states]\n"load, drivr" = "sysbench"\n[server]',
        "post.states: unknown setting 'load, drivr'; did you mean \"load, driver\"?",
    ),
    (
        "[server]",
        "[post.cpus]\ncount = 4\nserver = 2\n[server]",
        "post.cpus: give either count or server and client, not both",
    ),
    (
        "[server]",
        '[scaled]\nfactor = 0.1\nrows = 1\nlevel = "1m"\nthreads = []\n[server]',
        "scaled.threads: list should have at least 1 item after validation, not 0, not []",
    ),
    (
        "[server]",
        '[scaled]\nfactor = 0.1\nrows = 1\nlevel = "1m"\nthreads = [1]\n[scaled.full]\n'
        "variant = []\n[server]",
        "scaled.full.variant: list should have at least 1 item after validation, not 0, not []",
    ),
    (
        "[server]",
        '[post.reasons]\nweather = "rain"\n[server]',
        "post.reasons.weather.[key]: 'weather' is not known; use 'machine', 'allocator', 'server', "
        "'options', 'load', 'sequence', 'CPUs', 'memory', 'THP', 'data', 'time', 'statements', "
        "'transport' or 'warm-up'",
    ),
    # one of several words
    (
        'level = "10s"',
        'level = "10s"\n[cpu]\nserver = "a"',
        "cpu.server: 'a' is not a list of CPUs; write it like \"0-3,8\"",
    ),
    (
        'level = "10s"',
        'level = "10s"\n[cpu]\nserver = "0"\ncount = 1',
        "cpu: give either count or the sets server and client, not both",
    ),
    (
        'allocator = "jemalloc"',
        'thp = "on"',
        "variant \"jemalloc\": thp: 'on' is not known; use 'always', 'madvise' or 'never'",
    ),
    (
        'allocator = "jemalloc"',
        'thp_sizes = { 63K = "always" }',
        "variant \"jemalloc\": thp_sizes: '63K' is not a size of huge pages; they are powers of two from 16K to 512M",
    ),
    (
        'allocator = "jemalloc"',
        'thp_sizes = { 1M = "always", 1024K = "never" }',
        'variant "jemalloc": thp_sizes: the same size twice',
    ),
    (
        'allocator = "jemalloc"',
        'thp_sizes = { 64K = "on" }',
        "variant \"jemalloc\": thp_sizes.64K: 'on' is not known; use 'always', 'inherit', 'madvise' or 'never'",
    ),
    (
        "[server]",
        'warmup_sql = "scan"\n[data]\nsql = ["x.sql"]\n[server]',
        'warmup_sql: "scan" is a scan of sysbench\'s tables; give the statements for data of your own',
    ),
    (
        "[server]",
        'warmup_sql = "sacn"\n[server]',
        'warmup_sql: give a list of statements, or "scan"',
    ),
    (
        "[server]",
        "warmup_sql = [1]\n[server]",
        'warmup_sql: give a list of statements, or "scan"',
    ),
    (
        "[server]",
        '[server]\nengine = "toku"',
        "server.engine: 'toku' is not known; use 'innodb', 'rocksdb', 'aria' or 'myisam'",
    ),
    (
        "[server]",
        '[server]\nconnect = "pipe"',
        "server.connect: 'pipe' is not known; use 'socket', 'tcp' or 'tls'",
    ),
    (
        "threads = [1]",
        'threads = [1]\nlevels = "falling"',
        "levels: 'falling' is not known; use 'rising' or 'fresh'",
    ),
    # kinds
    (
        'options = { innodb_buffer_pool_size = "64M" }',
        "options = { a = [1] }",
        "server.options.a: input should be a valid string, not [1]",
    ),
    (
        'workloads = ["oltp_read_only"]',
        'workloads = "oltp_read_only"',
        "workloads: input should be a valid list, not 'oltp_read_only'",
    ),
]


def test_the_good_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert [v.name for v in experiment_file.load_experiment(path).variant] == ["glibc", "jemalloc"]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[b[2][:50] for b in BAD])
def test_bad_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1 or old.startswith("name")
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        experiment_file.load_experiment(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name = ", r"not TOML: Invalid value \(at end of document\)"),
        (b"name = 1\nname = 2\n", r"not TOML: Cannot overwrite a value \(at line 2, column 9\)"),
        (b"\xff\xfe", r"cannot read the experiment file: not UTF-8: .*"),
        (b"", r"baseline is missing"),
    ],
)
def test_what_is_no_toml(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        experiment_file.load_experiment(path)
    assert re.fullmatch(re.escape(f"{path}: ") + message, str(caught.value))
