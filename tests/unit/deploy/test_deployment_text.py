"""How to run one's own server with a variant: what is printed for each kind of variant, and how
values are quoted.
"""

import json
import os
import re
import shlex
import sqlite3
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_results import facts, variant

from dballoc.allocators import host_requirements
from dballoc.allocators.find_library import Allocator
from dballoc.allocators.host_requirements import Platform
from dballoc.cli.results_verbs import deploy as verb
from dballoc.deploy import deployment, deployment_text
from dballoc.deploy.deployment import Deployment, build_deployment
from dballoc.deploy.deployment_text import FORMS, render
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable import look_limits
from dballoc.host.settings import thp
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.store.results import Results
from hostile_files import HostileFile, HostileFiles

LIB = "/lib/x86_64-linux-gnu"
VARIANTS: list[dict[str, Any]] = [
    {"name": "glibc"},
    {"name": "arena1", "env": {"MALLOC_ARENA_MAX": "1"}},
    {"name": "glibc-tuned", "tunables": {"arena_max": 2, "tcache_count": 0}},
    {"name": "jemalloc", "allocator": "jemalloc"},
    {
        "name": "je-tuned",
        "allocator": "jemalloc",
        "tunables": {"narenas": 2, "background_thread": True},
    },
    {"name": "tbb", "allocator": "tbbmalloc"},
    {"name": "scudo", "allocator": "scudo"},
    {"name": "je-thp", "allocator": "jemalloc", "thp": "always"},
    {
        "name": "je-64K",
        "allocator": "jemalloc",
        "thp": "never",
        "thp_defrag": "defer+madvise",
        "thp_sizes": {"64K": "always", "1M": "never"},
    },
    {"name": "calm", "thp": "never", "server": {"options": {"innodb_buffer_pool_size": "1G"}}},
    {"name": "old", "allocator": "jemalloc@5.2.1"},
    {"name": "libc", "allocator": "glibc@2.41"},
    {"name": "google", "allocator": "google-tcmalloc"},
    {
        "name": "google-tuned",
        "allocator": "google-tcmalloc",
        "env": {"GLIBC_TUNABLES": "glibc.pthread.rseq=1"},
    },
    {"name": "own", "preload": ["/opt/my malloc/libmy.so"]},
]
# What the campaign set for them by itself.
ENVIRONMENTS = {
    name: {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"} for name in ("google", "google-tuned")
}
LIBRARIES = {
    "jemalloc": [f"{LIB}/libjemalloc.so.2"],
    "je-tuned": [f"{LIB}/libjemalloc.so.2"],
    "tbb": [f"{LIB}/libtbbmalloc_proxy.so.2", f"{LIB}/libtbbmalloc.so.2"],
    "scudo": ["/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so"],
    "je-64K": ["/venv/dballoc/_native/libdballoc_keep_thp.so", f"{LIB}/libjemalloc.so.2"],
    "je-thp": ["/venv/dballoc/_native/libdballoc_keep_thp.so", f"{LIB}/libjemalloc.so.2"],
    "own": ["/opt/my malloc/libmy.so"],
    "google": ["/var/lib/dballoc/google-tcmalloc@2025-06-16/lib/libgoogle_tcmalloc.so"],
}
LIBRARIES["google-tuned"] = LIBRARIES["google"]


@pytest.fixture
def directory(tmp_path: Path, experiment: Callable[..., Experiment]) -> Path:
    chosen = experiment(variant=VARIANTS)
    rows = []
    for v in chosen.variant:
        allocator = (v.allocator or "").partition("@")[0] or ("libmy.so" if v.preload else "glibc")
        libraries = json.dumps(LIBRARIES.get(v.name, []))
        rows.append(
            replace(
                variant(v.name),
                allocator=allocator,
                allocator_version="5.3.0",
                libraries=libraries,
                environment=json.dumps(ENVIRONMENTS.get(v.name, {})),
                thp=thp.describe_settings(v.host_settings) or None,
            )
        )
    Results.create(tmp_path, facts(chosen, 6, ["solo"]), rows).close()
    return tmp_path


@pytest.fixture
def of(directory: Path) -> Callable[[str], Deployment]:
    return lambda name: build_deployment(load_campaign(directory), name, directory)


def test_another_c_library_cannot_be_deployed(of: Callable[[str], Deployment]) -> None:
    with pytest.raises(
        UsageError,
        match=r"variant 'libc' runs its server on glibc 2\.41, which environment variables cannot select",
    ):
        of("libc")


def test_a_fetched_version_comes_with_no_package(of: Callable[[str], Deployment]) -> None:
    assert of("jemalloc").packages == ("libjemalloc2",)
    assert of("old").packages == ()


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("glibc", {}),
        ("arena1", {"MALLOC_ARENA_MAX": "1"}),
        ("glibc-tuned", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"}),
        # Neither the statistics at exit nor abort_conf: those are a campaign's.
        ("jemalloc", {"LD_PRELOAD": f"/usr{LIB}/libjemalloc.so.2"}),
        (
            "je-tuned",
            {
                "LD_PRELOAD": f"/usr{LIB}/libjemalloc.so.2",
                "MALLOC_CONF": "narenas:2,background_thread:true",
            },
        ),
        ("tbb", {"LD_PRELOAD": f"/usr{LIB}/libtbbmalloc_proxy.so.2:/usr{LIB}/libtbbmalloc.so.2"}),
        # Without it a server would be stopped for what every server does.
        (
            "scudo",
            {"LD_PRELOAD": LIBRARIES["scudo"][0], "SCUDO_OPTIONS": "dealloc_type_mismatch=false"},
        ),
        (
            "google",
            {
                "LD_PRELOAD": LIBRARIES["google"][0],
                "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
            },
        ),
        (
            "google-tuned",
            {
                "LD_PRELOAD": LIBRARIES["google"][0],
                "GLIBC_TUNABLES": "glibc.pthread.rseq=1",
            },
        ),
    ],
)
def test_what_a_variant_takes(
    of: Callable[[str], Deployment], name: str, environment: dict[str, str]
) -> None:
    assert of(name).environment == environment


@pytest.mark.parametrize("name", [v["name"] for v in VARIANTS if v["name"] != "libc"])
@pytest.mark.parametrize("family", ["mariadb", "mysql"])
def test_every_variant_has_a_text_for_every_form(directory: Path, name: str, family: str) -> None:
    if family == "mysql":
        db = sqlite3.connect(directory / "results.sqlite")
        db.execute("UPDATE variant SET server = 'MySQL 9.7.4'")
        db.commit()
        db.close()
    found = build_deployment(load_campaign(directory), name, directory)
    text = render(found, FORMS, {}, directory)
    headings = ("systemd", "mysqld_safe", "container", "docker compose", "StatefulSet", "verify")
    for heading in (f"== {name} ==" for name in headings):
        assert heading in text
    assert "/lib/x86_64-linux-gnu" not in text.replace("/usr/lib/x86_64-linux-gnu", "")
    for value in found.environment.values():
        assert value in text
    assert (
        "FROM mysql:9.7" if family == "mysql" else "FROM mariadb:10.11"
    ) in text or not found.libraries
    assert not re.search(r"\n\n\n|[ \t]\n|\{[{%]", text.replace("{{.State.Pid}}", ""))


def test_what_a_kernel_needs_is_said(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("google"), ["systemd"], {}, directory)
    assert "  - glibc.pthread.rseq=1 on Linux 6.19 to 7.0.9 (aarch64: to 7.0.13): " in text
    assert "  - glibc.pthread.rseq=0 on other kernels: " in text
    assert "rseq" not in render(of("jemalloc"), ["systemd"], {}, directory)


def test_mysqld_safe(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("tbb"), ["mysqld_safe"], {}, directory)
    assert re.search(
        r"\[mysqld_safe\]\n  malloc-lib = \S+libtbbmalloc_proxy.so.2\n  malloc-lib = \S+libtbbmalloc.so.2\n",
        text,
    )
    assert "! /" not in text
    text = render(of("scudo"), ["mysqld_safe"], {}, directory)
    assert f"! {LIBRARIES['scudo'][0]} is in none of them" in text
    assert "export SCUDO_OPTIONS=dealloc_type_mismatch=false" in text


def test_container(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("je-tuned"), ["container"], {}, directory)
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("  docker run")))
    assert words[:4] == ["docker", "run", "-e", f"LD_PRELOAD=/usr{LIB}/libjemalloc.so.2"]
    assert words[-1] == "mariadb:10.11"
    assert "apt-get install -y --no-install-recommends libjemalloc2" in text
    assert '    value: "narenas:2,background_thread:true"' in text
    text = render(of("own"), ["container"], {}, directory)
    assert 'COPY ["libmy.so", "/opt/my malloc/libmy.so"]' in text


def read_yaml(text: str, begin: str, end: str = "") -> Any:
    """The YAML between a line and an empty line of a text, each indented by two blanks."""
    block = text[text.index(begin) :]
    block = block[: block.index(end)] if end else block.partition("\n\n")[0]
    return yaml.safe_load(textwrap.dedent(block))


@pytest.mark.parametrize(
    "name", [v["name"] for v in VARIANTS if v["name"] not in ("libc", "glibc", "calm", "old")]
)
def test_yaml_of_pods_means_what_the_variant_takes(
    of: Callable[[str], Deployment], directory: Path, name: str
) -> None:
    wanted = of(name).environment

    def environment(rows: list[dict[str, str]]) -> dict[str, str]:
        return {row["name"]: row["value"] for row in rows}

    text = render(of(name), ["statefulset"], {}, directory)
    [container] = read_yaml(text, "  spec:")["spec"]["template"]["spec"]["containers"]
    assert environment(container["env"]) == wanted
    command = next(line for line in text.splitlines() if "kubectl set env" in line)
    assert shlex.split(command)[5:] == [f"{k}={v}" for k, v in wanted.items()]
    text = render(of(name), ["compose"], {}, directory)
    assert read_yaml(text, "  services:")["services"]["db"]["environment"] == wanted
    text = render(of(name), ["mariadb-operator"], {}, directory)
    assert environment(read_yaml(text, "  apiVersion:")["spec"]["env"]) == wanted
    text = render(of(name), ["percona-operator"], {}, directory)
    server = read_yaml(text[text.index("Percona Server for MySQL") :], "  spec:")
    assert environment(server["spec"]["mysql"]["env"]) == wanted


@pytest.mark.parametrize(
    ("name", "field", "secret"),
    [
        ("jemalloc", "jemalloc", None),
        ("je-tuned", "jemalloc", {"MALLOC_CONF": "narenas:2,background_thread:true"}),
        ("arena1", "", {"MALLOC_ARENA_MAX": "1"}),
        ("glibc", "", None),
        ("tbb", None, {"LD_PRELOAD"}),
    ],
)
def test_percona_operators_field(
    of: Callable[[str], Deployment], directory: Path, name: str, field: str | None, secret: Any
) -> None:
    text = render(of(name), ["percona-operator"], {}, directory)
    cluster = read_yaml(text, "  spec:")["spec"]["pxc"] or {}
    assert cluster.get("mysqlAllocator") == field
    assert cluster.get("envVarsSecret") == (None if secret is None else "malloc")
    if secret is not None:
        data = read_yaml(text, "  apiVersion:")["stringData"]
        assert data == secret if isinstance(secret, dict) else data.keys() == secret
    assert "They run Percona's builds of MySQL" in text  # it was measured under MariaDB


@pytest.mark.parametrize(
    "name", [variant["name"] for variant in VARIANTS if variant["name"] != "libc"]
)
def test_verify_is_told_what_to_expect(
    of: Callable[[str], Deployment], directory: Path, name: str
) -> None:
    text = render(of(name), ["statefulset"], {}, directory)
    [line] = [line for line in text.splitlines() if line.startswith("  dballoc verify PID")]
    words = shlex.split(line)[3:]
    [in_pod] = [line for line in text.splitlines() if "dballoc verify 1" in line]
    assert shlex.split(in_pod)[3:] == words
    if name == "own":
        assert words == []
        return
    assert words[:2] == ["--expect", "@".join(filter(None, [of(name).allocator, of(name).version]))]
    assert words[2::2] == ["--setting"] * len(of(name).settings)
    assert words[3::2] == [f"{k}={v}" for k, v in of(name).settings.items()]


def test_dollars_of_values_are_kept_from_compose_and_kubernetes(
    of: Callable[[str], Deployment], directory: Path
) -> None:
    deployment = replace(of("arena1"), settings={"A": "$HOME$(B)"})
    text = render(deployment, ["compose"], {}, directory)
    assert 'A: "$$HOME$$(B)"' in text
    text = render(deployment, ["statefulset"], {}, directory)
    assert 'value: "$HOME$$(B)"' in text


def test_plain_glibc_says_what_to_remove(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("glibc"), FORMS, {}, directory)
    assert "there is something to remove" in text
    assert "UnsetEnvironment=LD_PRELOAD GLIBC_TUNABLES" in text
    assert 'Environment="' not in text
    assert "go back" not in text


def test_thp_is_the_hosts(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("je-thp"), FORMS, {}, directory)
    assert "echo always > /sys/kernel/mm/transparent_hugepage/enabled" in text
    assert "switches THP off for itself" in text
    assert "libdballoc_keep_thp.so is dballoc's own" in text
    text = render(of("calm"), FORMS, {}, directory)
    assert "there the host may stay as it is" in text
    assert "[mysqld]\n  innodb_buffer_pool_size = 1G" in text
    assert "transparent huge pages" not in render(of("jemalloc"), FORMS, {}, directory)


def test_all_that_was_asked_of_huge_pages(of: Callable[[str], Deployment], directory: Path) -> None:
    text = render(of("je-64K"), FORMS, {}, directory)
    assert 'with the host at "never, defrag defer+madvise, 64K always, 1M never"' in text
    root = "/sys/kernel/mm/transparent_hugepage"
    for path, value in {
        f"{root}/enabled": "never",
        f"{root}/defrag": "defer+madvise",
        f"{root}/hugepages-64kB/enabled": "always",
        f"{root}/hugepages-1024kB/enabled": "never",
    }.items():
        assert f"  echo {value} > {path} " in text
        assert f"  echo 'w {path} - - - - {value}' >" in text
    # The first line makes the file, the others are added to it.
    assert text.count("' > /etc/tmpfiles.d/thp.conf") == 1
    assert text.count("' >> /etc/tmpfiles.d/thp.conf") == 3
    assert "Older kernels lack some of these files" in text
    # Huge pages of 64K are wanted, whatever the mode.
    assert "The campaign preloaded dballoc's shim" in text
    assert "and THP never, defrag defer+madvise, 64K always, 1M never." in text
    assert "Older kernels" not in render(of("je-thp"), FORMS, {}, directory)


def test_a_library_that_is_not_here_is_said(
    of: Callable[[str], Deployment], directory: Path
) -> None:
    path = f"/usr{LIB}/libjemalloc.so.2"
    text = render(of("jemalloc"), FORMS, {path: True}, directory)
    assert f"! Not on this machine: {path}: apt-get install libjemalloc2" in text
    assert "Not on this machine" not in render(of("jemalloc"), FORMS, {path: False}, directory)


def test_a_machine_that_it_does_not_run_on_is_said(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb.deploy(directory, "google", "systemd")
    assert "Not on this machine: LD_PRELOAD" not in capsys.readouterr().out
    host = Platform(page_size=4096, kernel="6.19.2")
    monkeypatch.setattr(host_requirements, "read_host", lambda: host)
    verb.deploy(directory, "google", "systemd")
    assert "! Not on this machine: LD_PRELOAD=" in capsys.readouterr().out


def test_the_verb(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.deploy(directory, "jemalloc", "systemd")
    assert "== systemd ==" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"no variant 'hoard'; there are glibc, arena1, .*, own$"):
        verb.deploy(directory, "hoard")
    with pytest.raises(UsageError, match="not a results directory"):
        verb.deploy(directory / "nowhere", "glibc")


def test_values_with_characters_that_mean_something() -> None:
    assert deployment_text.quote_systemd("A", 'x%y"z\\') == 'Environment="A=x%%y\\"z\\\\"'
    assert deployment_text.quote_dockerfile("A", '$HOME "x"') == 'ENV A="\\$HOME \\"x\\""'
    assert deployment_text.quote_yaml('a: "b" #c') == '"a: \\"b\\" #c"'


def test_a_server_that_starts_privileged_and_settings_without_effect_are_told(
    of: Callable[[str], Deployment], directory: Path
) -> None:
    privileged = ["/usr/sbin/mysqld starts privileged"]
    text = render(of("arena1"), ["systemd"], {}, directory, privileged=privileged)
    assert "! On this machine /usr/sbin/mysqld starts privileged." in text
    plain = render(of("glibc"), FORMS, {}, directory, privileged=privileged)
    assert "starts privileged" not in plain
    idle = replace(of("arena1"), idle=("MALLOC_ARENA_MAX=x has no effect: it is no number",))
    assert "! MALLOC_ARENA_MAX=x has no effect" in render(idle, ["systemd"], {}, directory)


def test_settings_are_judged_by_the_allocators_version() -> None:
    allocator = Allocator(name="jemalloc", libraries=(), version="5.2.1")
    settings = {"MALLOC_CONF": "narenas:2,hpa:true"}
    (words,) = deployment._list_idle_settings(allocator, settings)
    assert words.startswith("hpa:true has no effect: jemalloc 5.2.1 has no such setting")


def test_this_machines_servers_that_start_privileged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("no program starts privileged on this file system")
    server = tmp_path / "mysqld"
    server.write_bytes(b"")
    server.chmod(0o4755)
    monkeypatch.setenv("PATH", str(tmp_path))
    sentences = verb.find_privileged_servers("mysql")
    assert sentences[0].startswith(f"{server} starts privileged (the set-user-ID bit")
    server.chmod(0o755)
    assert str(server) not in " ".join(verb.find_privileged_servers("mysql"))


def test_a_library_of_the_results_that_never_answers_is_not_waited_for(
    hostile_files: HostileFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse")
    library = str(hostile_files.put("lib.so", HostileFile(waits=("getattr",))))
    monkeypatch.setenv(look_limits.VARIABLE, "1")
    with pytest.raises(Failure, match="did not answer within 1 s"):
        verb.look_at_libraries((library,), {"LD_PRELOAD": library})
    there, missing = "/bin/sh", "/nowhere/lib.so"
    assert verb.look_at_libraries((there, missing), {})[0] == {there: False, missing: True}
