"""Texts of results that others made, in every form that dballoc prints: nothing of them becomes a
command, a directive, an element or a line of its own. The form of an output does not depend on them.
"""

import csv
import io
import json
import re
import shlex
import sqlite3
import subprocess
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from example_explanations import look
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import verdicts as limits
from dballoc.cli.explain_parts.explain_request import LedgerView
from dballoc.cli.explain_parts.ledger_table import print_explanation
from dballoc.cli.shared.safe_output import Console, clean, safe
from dballoc.cli.verbs.record import format_next_command
from dballoc.deploy.deployment import Deployment, build_deployment
from dballoc.deploy.deployment import _check_words as check_words
from dballoc.deploy.deployment_text import FORMS, render
from dballoc.document.csv import format_csv
from dballoc.document.html import render_html
from dballoc.document.markdown import escape_markdown, render_markdown
from dballoc.document.terminal import print_answer
from dballoc.evidence.model import _select_figures as select_figures
from dballoc.evidence.sql.loadable_function import (
    LIBRARY,
    STATS,
    Installation,
    list_remove_steps,
    select_own_functions,
)
from dballoc.evidence.sql.server_memory import ServerMemory
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.answer.compose_answer import quote_directory
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.report_content import gather_report
from dballoc.questions.tune import answer
from dballoc.servers.running import credentials
from dballoc.store.open_database import FILE
from nasty_strings import LINES, UNPRINTABLE

Make = Callable[..., Path]
# What an experiment and the store let through.
ONE_LINE = st.one_of(
    st.sampled_from(LINES), st.text(st.characters(codec="utf-8"), max_size=30)
).filter(str.isprintable)

# What is a text of the results and not one of a fixed set.
COLUMNS = [
    ("variant", "server"),
    ("variant", "server_version"),
    ("variant", "allocator"),
    ("variant", "allocator_version"),
    ("variant", "thp"),
    ("trial", "thp"),
    ("trial", "cpus"),
    ("trial", "fault"),
    ("block", "disturbed"),
    ("ledger", "owner"),
    ("ledger", "part"),
]
OF_LINES = [("trial", "fault_text"), ("trial", "log_tail")]


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return Deployment(
        variant="jemalloc", baseline="glibc", allocator="jemalloc", title="jemalloc", version="5.3.0",
        family="mariadb", server="MariaDB 10.11.19", engine="innodb", libraries=("/usr/lib/libjemalloc.so.2",),
        settings={"MALLOC_CONF": "narenas:2"}, packages=("libjemalloc2",), tuned=True, options={"sort_buffer_size": "1M"},
        thp={}, thp_words="", wants_huge_pages=False, shim=None, rseq=(), idle=(), faults=None,
    )  # fmt: skip


def print_all(deployment: Deployment) -> str:
    return render(deployment, FORMS, {}, Path("results"))


def pick(text: str, pattern: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if re.match(pattern, line)]


@given(ONE_LINE)
def test_a_setting_is_one_word_in_every_form(deployment: Deployment, value: str) -> None:
    tuned = replace(deployment, settings={"X": value})
    benign, text = print_all(replace(tuned, settings={"X": "1"})), print_all(tuned)
    assert text.count("\n") == benign.count("\n")
    # A shell: as it would read them; nothing but a word changes.
    for pattern in ("  docker run", "  kubectl set env"):
        [line] = pick(text, pattern)
        assert f"X={value}" in shlex.split(line), line
    [exported] = pick(text, "  export X=")
    assert shlex.split(exported) == ["export", f"X={value}"]
    for verify in pick(text, r"\s+dballoc verify "):
        assert shlex.split(verify)[-2:] == ["--setting", f"X={value}"]
    # A unit, by systemd.syntax(7) and systemd.exec(5).
    [unit] = pick(text, r'  Environment="X=')
    assert read_unit_value(unit) == f"X={value}"
    # A Dockerfile.
    [env] = pick(text, "  ENV X=")
    assert read_docker_value(env) == value
    # YAML, and what Kubernetes and compose replace in it: \x24( and \x24 are written twice.
    scalars = re.findall(r"(?:- name: X\n +value|\n +X): (.*)", text)
    assert len(scalars) > 3
    shown = [yaml.safe_load(scalar) for scalar in scalars]
    for written in shown:
        assert written in (value, value.replace("$(", "$$("), value.replace("$", "$$")), written


@given(st.sampled_from(["sort_buffer_size", "malloc_lib"]), ONE_LINE)
def test_an_option_is_one_line_of_an_option_file(
    deployment: Deployment, name: str, value: str
) -> None:
    text = print_all(replace(deployment, options={name: value}))
    [section] = re.findall(r"  \[mysqld\]\n(.*)\n", text)
    lines = list(credentials.parse(f"[mysqld]\n{section}\n"))
    if value not in ("''", '""'):
        assert lines == [("mysqld", name.replace("_", "-"), value or None)]


@pytest.mark.parametrize("text", [*LINES, *UNPRINTABLE], ids=lambda text: ascii(text)[:30])
def test_paths_names_and_versions_are_words_or_refused(deployment: Deployment, text: str) -> None:
    expected = print_all(deployment)
    changes: list[dict] = [
        {"libraries": (f"/usr/lib/{text}",)},
        {"libraries": (text,)},
        {"server": f"MariaDB {text}"},
        {"server": f"MariaDB 10.11{text}"},
        {"title": text},
        {"version": text},
        {"engine": text},
        {"settings": {text: "1"}},
        {"options": {text: "1"}},
    ]
    for changed in (replace(deployment, **change) for change in changes):
        try:
            check_words(changed, "here")
        except UsageError as error:
            message = str(error)
            assert len(message.splitlines()) == 1
            continue
        printed = print_all(changed)
        assert abs(printed.count("\n") - expected.count("\n")) <= 3  # remarks on libraries
        for line in [*pick(printed, "  docker run"), *pick(printed, r"\s+dballoc verify ")]:
            check_shell(line)
        for line in pick(printed, "  FROM "):
            assert re.fullmatch(r"FROM mariadb:(10\.\d+|VERSION)", line)
        for line in pick(printed, "  COPY "):
            words = line.removeprefix("COPY ")
            assert len(json.loads(words) if words.startswith("[") else words.split()) == 2
        assert len(pick(printed, r"\s*\[mysqld_safe\]|\s*\[mysqld\]")) == 2
        assert not pick(printed, r"\s*(plugin-load-add|RUN touch|Environment=c4nary)")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("server", "MariaDB $(touch${IFS}c4nary).1"),
        ("libraries", '["/usr/lib/x.so\\n[mysqld]\\nplugin-load-add=c4nary"]'),
        ("libraries", '["/usr/lib/$(touch c4nary).so"]'),
        ("allocator_version", "5.3.0\n== container ==\n"),
    ],
)
def test_results_of_others_are_not_deployed(whole: Path, column: str, value: str) -> None:
    change(whole, (f"UPDATE variant SET {column} = ? WHERE name = 'jemalloc'", value))
    with pytest.raises((UsageError, Failure)):
        build_deployment(load_campaign(whole), "jemalloc", whole)


OBEYED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def change(directory: Path, *statements: tuple[str, str]) -> None:
    db = sqlite3.connect(directory / FILE)
    db.execute("PRAGMA ignore_check_constraints = ON")
    with db:
        for sql, value in statements:
            db.execute(sql, (value,))
    db.close()


def check_shell(line: str) -> None:
    """A line is one simple command without an expansion."""
    assert subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0, line
    quoteless = re.sub(r"'[^']*'|\"'\"", "", line)
    assert not re.search(r"[$`;&|<>(){}\\]", quoteless), line


def read_unit_value(line: str) -> str:
    """Read an assignment's one quoted word: C escapes, and %% for %."""
    match = re.fullmatch(r'Environment="((?:[^"\\]|\\.)*)"', line)
    assert match, line
    assert not re.search("%(?!%)", match[1].replace("%%", "")), line
    return re.sub(r"\\(.)", r"\1", match[1].replace("%%", "%"))


def read_docker_value(line: str) -> str:
    match = re.fullmatch(r'ENV X="((?:[^"\\$]|\\.)*)"', line)
    assert match, line
    return re.sub(r"\\(.)", r"\1", match[1])


def test_a_directory_is_a_word_of_the_answers_command(tmp_path: Path) -> None:
    for text in [*LINES, *UNPRINTABLE]:
        name = tmp_path / text.replace("/", "_")
        words = shlex.split(f"dballoc deploy {quote_directory(name)}")
        assert len(words) == 3
        assert words[2] == str(name) or not text.isprintable()
    assert "quote_directory" in Path(answer.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(("table", "column"), COLUMNS)
@pytest.mark.parametrize("text", UNPRINTABLE, ids=lambda text: ascii(text)[:20])
def test_a_cell_that_cannot_be_printed_is_refused(
    whole: Path, table: str, column: str, text: str
) -> None:
    change(whole, (f"UPDATE {table} SET {column} = ?", text))
    with pytest.raises((Failure, UsageError), match=rf"{table}\.{column}: .* is not valid"):
        load_campaign(whole)


@pytest.fixture
def whole(make: Make) -> Path:
    return make("whole", blocks=2, threads=[1], faulty=("tuned",))


@pytest.mark.parametrize(
    "value", ['["a\\nb"]', '{"a": "b\\u001b[2J"}', '{"a\\nb": "1"}', '["\\u202e"]']
)
@pytest.mark.parametrize("column", ["libraries", "environment", "command"])
def test_texts_in_json_are_refused_too(whole: Path, column: str, value: str) -> None:
    change(whole, (f"UPDATE variant SET {column} = ? WHERE name = 'jemalloc'", value))
    with pytest.raises((Failure, UsageError), match=rf"variant\.{column}: "):
        load_campaign(whole)


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.list: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.list.append((tag, tuple(name for name, _ in attrs)))


def render_pages(directory: Path, texts: list[str]) -> tuple[str, str, str]:
    """Render a report, and its answer on a terminal, with the texts in turn in every column of free text."""
    for number, (table, column) in enumerate([*COLUMNS, *OF_LINES]):
        if column != "part":
            where = " WHERE outcome = 'fault'" if column.startswith(("fault", "log")) else ""
            text = texts[number % len(texts)]
            change(directory, (f"UPDATE {table} SET {column} = ?{where}", text))
    content = gather_report(load_campaign(directory), directory=directory)
    screen = draw(lambda console: print_answer(console, content.answer))
    return render_html(content, False), render_markdown(content, False), screen


def draw(show: Callable[[Console], None]) -> str:
    """Return what a wide terminal is sent, without the colours, which are Rich's own."""
    out = io.StringIO()
    show(Console(file=out, force_terminal=True, width=100_000, color_system="truecolor"))
    return re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())


def check_screen(screen: str, benign: str) -> None:
    assert screen.count("\n") == benign.count("\n")
    assert all(c == "\n" or unicodedata.category(c) not in OBEYED for c in screen)


SHORT = [text for text in LINES if len(text) < 100 and text.strip()]


@pytest.mark.parametrize("first", range(0, len(SHORT), 11))
def test_a_report_has_the_same_form_whatever_its_texts_are(whole: Path, first: int) -> None:
    benign_page, benign_text, benign_screen = render_pages(whole, ["benign"])
    page, markdown, screen = render_pages(whole, SHORT[first : first + 11])
    check_screen(screen, benign_screen)
    before, after = Elements(), Elements()
    before.feed(benign_page)
    after.feed(page)
    assert after.list == before.list
    assert markdown.count("\n") == benign_text.count("\n")
    for line, as_it_was in zip(markdown.split("\n"), benign_text.split("\n"), strict=True):
        assert count_cells(line) == count_cells(as_it_was), line
        if line != as_it_was and as_it_was != "benign":  # in a fence
            assert "<" not in line.replace("<br>", ""), line


def count_cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) if line.startswith("| ") else 0


@given(st.one_of(st.sampled_from([*LINES, *UNPRINTABLE]), st.text()))
def test_markdown_and_csv_take_any_text(text: str) -> None:
    escaped = escape_markdown(text)
    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~#]", escaped)
    assert "<" not in escaped
    [row] = csv.reader(io.StringIO(format_csv([[text, "x"]]), newline=""))
    assert row[1] == "x"
    assert not row[0].startswith(("=", "@", "\t", "\r"))


@pytest.mark.parametrize("text", [*LINES, *UNPRINTABLE], ids=lambda text: ascii(text)[:30])
def test_a_look_has_the_same_form_on_a_terminal_whatever_names_are(text: str) -> None:
    def explain(name: str) -> str:
        seen = look({"key cache": 300}, sessions=[(name, 28, 5 << 20)])
        lines = [replace(line, owner=f"{line.owner} {name}") for line in seen.ledger.lines]
        ledger = replace(seen.ledger, executable=name, malloc=name, lines=lines, notes=[name])
        return draw(
            lambda console: print_explanation(
                console,
                clean(replace(seen, ledger=ledger, answer=name)),
                LedgerView(all_lines=True),
            )
        )

    screen = explain(text)
    check_screen(screen, explain("benign"))
    assert screen.count(safe(text).strip()) >= 3


def test_a_word_of_a_server_is_no_word_of_sql() -> None:
    """SQL that we print or run about a server has names of our own and numbers alone."""
    names = ["innodb_buffer_pool_size", "key_buffer_size", "query_cache_size"]

    def pick_figures(text: str) -> dict[str, int]:
        variables = dict.fromkeys(names, text)
        labels = ServerMemory(
            version="", heap=[], tables=[], mapped_caches={}, variables=variables, status={}
        )
        return select_figures(labels, limits())

    assert pick_figures("1").keys() == set(names)
    for text in [*LINES, *UNPRINTABLE, "1; DROP TABLE t", "1e3", "٣", " 1", ""]:
        assert pick_figures(text) == {}
        rows = select_own_functions([(text, LIBRARY), (f"{STATS} {text}", LIBRARY), (STATS, text)])
        installation = Installation(
            directory="/p", rows=rows, file=False, same=False, variables={}, members=0
        )
        steps = list_remove_steps(installation)
        assert steps == [f"SET sql_log_bin = 0, and DROP FUNCTION {STATS}"]


@pytest.mark.parametrize("line", LINES)
def test_the_name_of_a_recording_is_a_word_of_the_next_command(line: str) -> None:
    command = format_next_command(f"/tmp/{line}.recording")
    *words, file, option, trace = shlex.split(command)
    assert words == ["dballoc", "trace", "compile"]
    assert option == "-o"
    assert file == f"/tmp/{line}.recording"
    assert trace == f"{line.rpartition('/')[2]}.trace"
