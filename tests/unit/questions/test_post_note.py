"""The note on a post, in every form of a report, of results that no server made."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_posts import cite
from judged_campaign import judge_whole
from rich.console import Console
from typer.testing import CliRunner

from dballoc import catalogue
from dballoc.cli.verb_list import application
from dballoc.document import vega_code
from dballoc.document.html import render_html
from dballoc.document.markdown import render_markdown
from dballoc.document.model import Document
from dballoc.document.terminal import print_answer
from dballoc.experiment import experiment_file, scale
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.load.post_like import fill_post
from dballoc.questions.campaign_data import collect_tables
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.published.setup.campaign_setup import (
    compare_campaign_with_post,
    read_campaign_setup,
)
from dballoc.questions.redact import redact_campaign
from dballoc.questions.report_content import judge_campaign

Make = Callable[..., Path]

POST: dict[str, Any] = cite(
    {
        "source": "somebody, 2012",
        "machine": "24 cores | *all* of them",
        "server": "MySQL 5.5",
        "cpus": {"count": 24},
        "memory": "16G",
        "options": {"innodb_buffer_pool_size": "52G", **{f"x_{i}": i for i in range(140)}},
        "states": {
            "sequence": "one start for all workloads and levels",
            "transport": "named pipe",
            "load, clients": "1, 4",
            "data, rows of a table": "50,000,000",
            "time, a level": "5m",
        },
        "variants": {"glibc": "glibc 2.12", "jemalloc": "jemalloc 2.2.5", "lockless": "lockless"},
        "reasons": {"allocator": "no registry has them"},
    }
)


@pytest.fixture
def results(make: Make) -> Path:
    return make(
        "repeated",
        blocks=2,
        design="solo",
        post=POST,
        server={"stands_for": "MySQL 5.5", "options": {"innodb_buffer_pool_size": "128M"}},
        scaled={
            "factor": 0.01,
            "rows": 50_000_000,
            "threads": [8, 64],
            "level": "5m",
            "full": {"server": {"options": {"innodb_buffer_pool_size": "52G"}}},
        },
    )


def flatten(text: str) -> str:
    return " ".join(text.split())


def test_the_answer_says_all_that_differs_topic_by_topic(results: Path) -> None:
    note = judge_whole(load_campaign(results))[2].post
    assert note is not None
    assert note.intro.startswith("Against the post (somebody, 2012): ")
    lines = {topic.name: topic.lines for topic in note.topics}
    assert lines["server"] == ["the post: MySQL 5.5; here: MariaDB 10.11.1"]
    assert lines["CPUs"] == [
        "the post: 24 logical CPUs; here: 2 logical CPUs, server and client together"
    ]
    assert lines["transport"] == ["the post: named pipe; here: socket"]
    assert lines["data"] == ["rows of a table: the post: 50,000,000; here: 100,000 (scaled)"]
    assert lines["allocator"] == [
        "glibc: the post: glibc 2.12; here: glibc 1",
        "jemalloc: the post: jemalloc 2.2.5; here: jemalloc 1",
        "tuned: the post: not run; here: tuned 1, built into the server",
        "lockless: the post: lockless; here: not run",
        "why: no registry has them",
    ]
    assert lines["options"][0] == "innodb_buffer_pool_size: the post: 52G; here: 128M (scaled)"
    assert lines["options"][1].startswith("the post: x_0=0, x_1=1, ")
    assert lines["options"][1].endswith("x_139=139; here: not set")
    assert not {"memory", "sequence", "load"} & set(lines)
    assert "load, random numbers: uniform" in note.silent
    [allocator] = [topic for topic in note.topics if topic.name == "allocator"]
    assert allocator.title == "allocator, 4 differences"


def test_what_the_note_says_is_not_said_twice(results: Path) -> None:
    answer = judge_whole(load_campaign(results))[2]
    assert answer.notes[0] == (
        "Scaled to 0.01 of small: rows, caches, logs and times by this factor, clients by its "
        "fourth root, 0.32. No cache or redo log was made smaller than 16M, no log buffer than 2M, "
        "no other file or buffer than 1M, no time than 1s. Its figures are not those of the full scale."
    )
    assert not any(note.startswith("Stand-ins") for note in answer.notes)


def test_an_experiment_without_a_post_keeps_its_notes(make: Make) -> None:
    path = make("plain", server={"stands_for": "MySQL 5.5"})
    answer = judge_whole(load_campaign(path))[2]
    assert answer.post is None
    assert any(note.startswith("Stand-ins") for note in answer.notes)
    assert not compare_campaign_with_post(load_campaign(path))


def test_every_form_of_the_report_has_all_of_it(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vega_code, "bundle_vega", str)  # takes seconds, and nothing is drawn
    answer = judge_whole(load_campaign(results))[2]
    content = Document(title="x", subtitle="", names=["glibc"], answer=answer, sections=[])
    page, text = render_html(content, redacted=False), render_markdown(content, redacted=False)
    shown = io.StringIO()
    print_answer(Console(file=shown, width=70), answer)
    indented = [line for line in shown.getvalue().splitlines() if line.startswith("    ")]
    assert len(indented) > 15
    assert max(map(len, indented)) <= 70
    note = content.answer.post
    assert note is not None
    for topic in note.topics:
        for line in topic.lines:
            assert line in page
            assert re.sub(r"([_*|])", r"\\\1", line) in text.partition("\n## ")[0]
            assert flatten(line) in flatten(shown.getvalue())
    assert page.count("<summary>") == 1
    assert page.count("<details><summary>options, 141 differences</summary>") == 1
    assert "24 cores \\| \\*all\\* of them" in text


def test_the_comparison_is_a_table_too(results: Path) -> None:
    campaign = load_campaign(results)
    table = collect_tables(campaign, judge_campaign(campaign))["post"]
    rows = {(row["topic"], row["item"]): row for row in table.iter_rows(named=True)}
    assert rows["CPUs", ""]["differs"]
    assert not rows["memory", "of the machine"]["differs"]
    assert table.columns == ["topic", "item", "post", "run", "differs", "paragraph"]


def test_options_that_dballoc_adds_are_those_of_the_servers_command(make: Make) -> None:
    command = ["/usr/sbin/mariadbd", "--no-defaults", "--datadir=DATA", "--skip-log-bin"]
    command += ["--max-connections=151", "--innodb-buffer-pool-size=1G", "--skip-networking"]
    path = make(
        "commands",
        server={"options": {"innodb_buffer_pool_size": "1G"}},
        sql=(f"UPDATE variant SET command = '{json.dumps(command)}'",),
    )
    setup = read_campaign_setup(load_campaign(path))
    assert setup.added_options == {"skip_log_bin": "", "max_connections": "151"}
    assert (setup.host_cpus, setup.host_memory) == (2, 2**34)
    assert (setup.defaults, setup.host_cores, setup.host_thp) == ({}, (), None)


def test_cores_thp_and_defaults_are_read_from_the_results(make: Make) -> None:
    known = {"cpus": 4, "cpus_of_cores": [[0, 2], [1, 3]], "thp": "madvise"}
    facts = {"environment": known, "option_defaults": {"log-bin": "OFF"}}
    path = make(
        "known",
        post=cite({**POST, "cpus": {"server": 2, "client": 2}}),
        cpu={"server": "0-1", "client": "2-3"},
        sql=tuple(
            f"INSERT OR REPLACE INTO campaign VALUES ('{key}', '{json.dumps(value)}')"
            for key, value in facts.items()
        ),
    )
    setup = read_campaign_setup(load_campaign(path))
    assert setup.host_cores == (frozenset({0, 2}), frozenset({1, 3}))
    assert (setup.host_thp, setup.defaults) == ("madvise", {"log-bin": "OFF"})
    note = judge_whole(load_campaign(path))[2].post
    assert note is not None
    [cpus] = [topic for topic in note.topics if topic.name == "CPUs"]
    assert cpus.lines == [
        "cores: the post: server and client on cores of their own; here: server and client share 2 "
        "cores (CPUs 0,2; 1,3)"
    ]
    assert "THP: as the host has it (madvise)" in note.silent


@pytest.mark.parametrize("cores", [[["0-9"]], [[0] * 17], [[-1]], "0-1", [[10**6]]])
def test_cores_that_no_machine_has_are_refused(make: Make, cores: object) -> None:
    environment = json.dumps({"cpus_of_cores": cores})
    path = make(
        "bad", sql=(f"UPDATE campaign SET value = '{environment}' WHERE key = 'environment'",)
    )
    with pytest.raises(Failure, match="cpus_of_cores"):
        load_campaign(path)


@pytest.mark.parametrize("user", ["start", "pipe", "clients"])
def test_a_users_name_that_is_a_word_of_a_post_leaves_it_valid(make: Make, user: str) -> None:
    path = make(
        "named",
        post=cite({**POST, "machine": f"{user}'s", "thp": "never"}),
        sql=(f"UPDATE campaign SET value = '{user}' WHERE key = 'server_user'",),
    )
    post = redact_campaign(load_campaign(path)).experiment.post
    assert post is not None
    assert post.states == POST["states"]
    assert post.thp == "never"
    assert post.machine == "USER's"


def test_a_post_does_not_change_what_may_be_resumed(
    experiment: Callable[..., Experiment],
) -> None:
    plain, stated = experiment(), experiment(post=POST)
    assert experiment_file.compute_identity(plain) == experiment_file.compute_identity(stated)


def test_a_post_is_written_read_back_and_not_scaled(
    experiment: Callable[..., Experiment],
) -> None:
    stated = experiment(post=cite({**POST, "options": {}, "warmup": []}))
    table = experiment_file.parse_table(experiment_file.format_experiment(stated), "x")
    assert experiment_file.build_experiment(table, "x") == stated
    small = scale.scale_experiment(stated, 0.01, {0, 1}, "x")
    assert small.post == stated.post
    assert small.data.rows < stated.data.rows


def run(*words: str) -> str:
    result = CliRunner().invoke(application(["list"]), ["list", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_tells_what_the_post_states_and_what_the_run_does() -> None:
    [entry] = json.loads(run("experiments", "mdev-38369", "--post", "--json"))
    assert entry["source"] == "MariaDB's tracker, MDEV-38369"
    by_topic = {(row["topic"], row["item"]): row for row in entry["post"]}
    assert by_topic["transport", ""] == {
        "topic": "transport",
        "item": "",
        "post": "named pipe",
        "run": "socket",
        "differs": True,
        "paragraph": "Server parameters; Sysbench invocation, the command and paragraph 2",
    }
    assert not by_topic["load", "clients"]["differs"]
    lines = [line.split("\t") for line in run("experiments", "mdev-38369", "--post").splitlines()]
    assert lines[0] == ["name", "differs", "topic", "the post", "paragraph", "the run"]
    paragraph = by_topic["transport", ""]["paragraph"]
    assert ["mdev-38369", "≠", "transport", "named pipe", paragraph, "socket"] in lines
    [note] = [note for note in entry["notes"] if note["item"] == "options, --console"]
    assert note["paragraph"] == "Server parameters"
    cells = ["note: options, --console", note["post"], note["paragraph"], ""]
    assert ["mdev-38369", "", *cells] in lines


def test_the_list_has_every_post() -> None:
    lines = run("experiments", "--post").splitlines()[1:]
    names = dict.fromkeys(line.split("\t")[0] for line in lines)
    posts = [n for n, text in catalogue.experiments().items() if "\n[post]\n" in text]
    assert list(names) == posts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["servers", "--post"], "--post is for experiments, not for servers"),
        (["experiments", "demo", "--post"], "no 'demo' among the experiments that repeat a post"),
    ],
)
def test_what_has_no_post_is_refused(words: list[str], message: str) -> None:
    result = CliRunner().invoke(application(["list"]), ["list", *words])
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_clients_apart_and_what_settled_otherwise_are_read_from_the_results(make: Make) -> None:
    otherwise = {n: {"lzero_now": "and_lzero_now"} for n in ("glibc", "jemalloc", "tuned")}
    post = {"states": {"transport, client on": "same host"}, "cpus": {"count": 2}}
    post["warmup"] = ["settling for 10s"]
    path = make(
        "apart",
        post=cite(post),
        sql=(
            "INSERT OR REPLACE INTO campaign VALUES ('clients', 'apart')",
            f"INSERT OR REPLACE INTO campaign VALUES ('settled_otherwise', '{json.dumps(otherwise)}')",
            "INSERT INTO client_connection SELECT trial, 'TLSv1.3', 4, 4 FROM trial",
        ),
    )
    note = judge_whole(load_campaign(path))[2].post
    assert note is not None
    lines = {topic.name: topic.lines for topic in note.topics}
    assert lines["transport"] == ["client on: the post: same host; here: another host"]
    assert "transport, connections are: encrypted" in note.silent
    [cpus] = lines["CPUs"]
    assert cpus.endswith("here: server 2 logical CPUs, client all of its own host")
    assert lines["warm-up"][-1] == (
        "settling sets: the post: lzero_now; here: and_lzero_now, as the server does not have it"
    )


def test_hosts_of_several_kinds_are_told_apart_and_those_of_one_kind_are_not(make: Make) -> None:
    """Blocks 1 to 3 ran on hosts a, b and c, of which the last has more memory and CPUs."""
    shapes = {"a": (2, 2**34), "b": (2, 2**34 + 2**20), "c": (64, 2**37)}
    path = make(
        "kinds",
        post=cite(
            {"cpus": {"count": 64}, "memory": "16G", "states": {"data, rows of a table": "7"}}
        ),
        design="solo",
        blocks=3,
        sql=tuple(
            sql
            for number, (name, (cpus, memory)) in enumerate(shapes.items(), 1)
            for sql in (
                f"INSERT INTO host VALUES ('{name}', 'kernel {name}', "
                f"""'{json.dumps({"host": name, "cpus": cpus, "memory": memory})}')""",
                "INSERT INTO placement (design, block, attempt, host) SELECT design, block, attempt, "
                f"'{name}' FROM block WHERE block = {number}",
            )
        ),
    )
    found = {(c.topic, c.item): c for c in compare_campaign_with_post(load_campaign(path))}
    assert [c.run for (topic, _), c in found.items() if topic == "CPUs"] == [
        "2 logical CPUs, server and client together",
        "64 logical CPUs, server and client together",
    ]
    assert found["CPUs", "on a, b"].differs
    assert not found["CPUs", "on c"].differs
    assert found["memory", "of the machine on c"].differs
    assert found["data", "rows of a table"].differs


def test_of_hosts_without_a_finished_block_nothing_is_known(make: Make) -> None:
    environment = json.dumps({"host": "a", "cpus": 64, "memory": 2**37})
    path = make(
        "none",
        post=cite({"cpus": {"count": 64}}),
        design="solo",
        blocks=2,
        sql=(
            f"INSERT INTO host VALUES ('a', 'kernel', '{environment}')",
            "INSERT INTO placement (design, block, attempt, host) VALUES ('solo', 9, 0, 'a')",
        ),
    )
    assert read_campaign_setup(load_campaign(path)).host_cpus is None
    assert compare_campaign_with_post(load_campaign(path))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("smalldatum-2025-myrocks", "rocksdb_force_flush_memtable_and_lzero_now instead"),
        ("smalldatum-2025-innodb", "(MariaDB, and MySQL before 8.0.18), nothing instead"),
    ],
)
def test_the_list_says_that_settling_may_use_a_substitute(name: str, told: str) -> None:
    [entry] = json.loads(run("experiments", name, "--post", "--json"))
    [row] = [row for row in entry["post"] if row["item"] == "settling sets"]
    assert told in row["run"]
    assert not row["differs"]


@pytest.mark.parametrize("fact", ["[]", '{"glibc": "x"}', '{"glibc": {"a": 1}}'])
def test_a_damaged_fact_of_settling_is_refused(make: Make, fact: str) -> None:
    path = make(
        "bad", sql=(f"INSERT OR REPLACE INTO campaign VALUES ('settled_otherwise', '{fact}')",)
    )
    with pytest.raises(Failure, match="settled_otherwise"):
        load_campaign(path)


def test_the_list_tells_reasons_and_what_nothing_stands_for() -> None:
    [entry] = json.loads(run("experiments", "percona-2012", "--post", "--json"))
    assert entry["reasons"]["server"] == "no registry has Percona Server 5.5"
    assert entry["no_stand_in"]["lockless"].startswith("it is in no package registry")
    lines = [line.split("\t") for line in run("experiments", "percona-2012", "--post").splitlines()]
    why = ["percona-2012", "", "why: server", "", "", "no registry has Percona Server 5.5"]
    assert why in lines
    assert [
        "percona-2012",
        "",
        "no stand-in",
        "lockless",
        "",
        entry["no_stand_in"]["lockless"],
    ] in lines


def test_a_post_like_another_one_is_that_one_but_for_its_own_keys() -> None:
    base, other = (
        experiment_file.parse_table(catalogue.experiments()[name], name)["post"]
        for name in ("smalldatum-2025-myrocks", "smalldatum-2025-innodb")
    )
    # The first is like the other, which is like the base.
    post = fill_post(
        {"post": {"like": "smalldatum-2025-innodb", "states": {"transport": "tcp"}}}, "x"
    )["post"]
    assert other.pop("like") == "smalldatum-2025-myrocks"
    reasons = base["reasons"] | other["reasons"]
    states = base["states"] | {"transport": "tcp"}
    # A paragraph is the nearest's that has the statement.
    replaced = ("server", "options", "notes")
    kept = {k: v for k, v in base["paragraphs"].items() if not k.startswith(replaced)}
    paragraphs = kept | other["paragraphs"]
    assert post == {
        **base,
        **other,
        "states": states,
        "reasons": reasons,
        "paragraphs": paragraphs,
    }
    assert "warm-up" in reasons.keys() - other["reasons"].keys()
    # What is no table is refused where the whole experiment is checked.
    assert fill_post({"post": {"like": "percona-2012", "reasons": 5}}, "x")["post"]["reasons"] == 5
    assert post["server"] != base["server"]


@pytest.mark.parametrize("name", ["demo", "nothing", 7, ["percona-2012"], "percona-2012\n"])
def test_a_post_is_like_no_other_than_a_shipped_one(name: object) -> None:
    with pytest.raises(UsageError, match=r"^x: post\.like: .* is no shipped experiment"):
        fill_post({"post": {"like": name}}, "x")


def test_a_circle_of_posts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    posts = {"a": '[post]\nlike = "b"', "b": '[post]\nlike = "a"'}
    monkeypatch.setattr(catalogue, "experiments", lambda: posts)
    with pytest.raises(UsageError, match=r"^x: post\.like: 'b' is no shipped experiment"):
        fill_post({"post": {"like": "b"}}, "x")


def test_what_is_printed_has_the_whole_post(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "own"\nbaseline = "glibc"\nworkloads = ["oltp_read_only"]\nthreads = [1]\n'
        '[post]\nlike = "smalldatum-2025-innodb"\n[[variant]]\nname = "glibc"\n'
    )
    result = CliRunner().invoke(application(["bench"]), ["bench", str(file), "--print"])
    assert result.exit_code == 0, result.output
    post = experiment_file.parse_table(result.stdout, "printed")["post"]
    assert post["server"].startswith("MySQL 8.0.40 ")
    assert len(post["statements"]) == 32
    assert "like" not in post
