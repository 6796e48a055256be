"""The host's settings outlive nobody: not two campaigns at once, nor ``kill -9`` of dballoc and its
guardian at any moment.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from harness import Cli, Experiment, processes_of, rows, server_pid, thp_mode, wait_until

from dballoc.host.settings import machine_lock, thp
from dballoc.host.settings.writable_settings import HostSetting, read_setting
from dballoc.trace.trace_file.write_trace import write_trace
from example_traces import make_trace

# What is measured is of no interest here.
QUICK = {"idle": "0s"}

SHIM = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("needs_root")]

# Changes the setting to and fro, until it is killed or has lost its guardian.
SWITCHING = """
import random, sys
from pathlib import Path
from dballoc.ground.errors import Failure
from dballoc.host.settings import machine_lock
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.settings.writable_settings import HostSetting

home = Path(sys.argv[1])
values = ("always", "madvise", "never")
stand_in = machine_lock.LockPlace(home / "run", {n: HostSetting(str(home / n), values) for n in ("thp", "thp_defrag")})
hold = machine_lock.hold(stand_in, exclusive=True, purpose="a test")
try:
    with Custody(hold=hold, adopt=True) as custody:
        custody.set("thp", "never")
        print(custody._process.pid, flush=True)
        while True:
            custody.set(random.choice(["thp", "thp_defrag"]), random.choice(["never", "madvise"]))
            if random.random() < 0.3:
                custody.restore()
except Failure:
    pass
"""


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that init has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(
    "victims", [("dballoc",), ("guardian",), ("dballoc", "guardian"), ("guardian", "dballoc")]
)
def test_killed_at_any_moment_the_settings_are_put_back(
    tmp_path: Path, package_path: Path, victims: tuple[str, ...]
) -> None:
    seed = int(os.environ.get("DBALLOC_TEST_SEED", random.randrange(10**6)))
    print(f"DBALLOC_TEST_SEED={seed}")
    chance = random.Random(seed)
    paths = [tmp_path / name for name in ("thp", "thp_defrag")]
    for path in paths:
        path.write_text("always")
    stand_in = machine_lock.LockPlace(
        tmp_path / "run",
        {path.name: HostSetting(str(path), ("always", "madvise", "never")) for path in paths},
    )

    def values() -> tuple[str, ...]:
        return tuple(read_setting(str(path)) for path in paths)

    unchanged = ("always", "always")
    left: Counter[tuple[str, ...]] = Counter()
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", SWITCHING, tmp_path],
            env={**os.environ, "PYTHONPATH": str(package_path)},
            stdout=subprocess.PIPE,
            text=True,
        ) as dballoc:
            assert dballoc.stdout is not None
            pids = {"dballoc": dballoc.pid, "guardian": int(dballoc.stdout.readline())}
            time.sleep(chance.random() * 0.03)
            for victim in victims:
                os.kill(pids[victim], signal.SIGKILL)
        # Who comes next waits for a guardian that cleans up, and puts back what nobody else has.
        wait_until(lambda guardian=pids["guardian"]: has_ended(guardian))
        left[values()] += 1
        if len(victims) == 1:
            assert values() == unchanged, "the one that was not killed has put them back"
        held = machine_lock.hold(stand_in, exclusive=chance.random() < 0.5, purpose="the next")
        assert held
        held.release()
        assert values() == unchanged
    assert sum(left.values()) == 12
    if len(victims) == 2:
        assert left[unchanged] < 12, (
            "not one kill struck while one was changed: the test has shown nothing"
        )


# -- the real one --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def other_mode() -> str:
    """A mode that the host does not have."""
    if (mode := thp.read_mode()) is None:
        pytest.skip("this kernel has no THP")
    return "never" if mode != "never" else "madvise"


def switched(other: str) -> bool:
    return f"[{other}]" in thp_mode()


def ask_for_another_host(mode: str) -> tuple[dict[str, object], dict[str, str]]:
    """Return a variant's keys that ask for that mode, another ``defrag``, and another mode of a
    size where the kernel has switches of sizes; and the host's settings that are these.
    """
    host = thp.read_host()
    settings = {"thp": mode, "thp_defrag": "never" if host["thp_defrag"] != "never" else "always"}
    keys: dict[str, object] = dict(settings)
    if "thp_64K" in host and SHIM.exists():
        settings["thp_64K"] = "madvise" if host["thp_64K"] != "madvise" else "always"
        keys["thp_sizes"] = {"64K": settings["thp_64K"]}
    return keys, settings


def test_two_campaigns_at_once_do_not_meet(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path, other_mode: str
) -> None:
    before = thp.read_host()
    keys, settings = ask_for_another_host(other_mode)
    variants = [{"name": "glibc"}, {"name": "other", **keys}]
    first = run_cli.start("bench", tiny_experiment(variant=variants, time=QUICK), "--out", out)
    wait_until(lambda: switched(other_mode) or first.poll() is not None)
    # One that switches too, and one that would merely be measured in the wrong mode.
    seconds = {
        name: run_cli.start("bench", tiny_experiment(variant=changed), "--out", out.with_name(name))
        for name, changed in (("exclusive", variants), ("shared", [{"name": "glibc"}]))
    }
    for name, second in seconds.items():
        done = run_cli.end(second)
        assert done.status == 2, f"{name}: {done.text}"
        assert f"(process {first.pid}, results in {out})" in done.stderr
        assert f"kill {first.pid}" in done.stderr
        assert not list((out.with_name(name) / "trials").iterdir())
    done = run_cli.end(first)
    assert done.status == 0, done.text
    # "madvise, switched off by the process", where a server does that.
    modes = {(r["variant"], r["thp"].partition(",")[0]) for r in rows(out, "SELECT * FROM trial")}
    assert modes == {("glibc", thp.read_mode()), ("other", other_mode)}
    words = {r["variant"]: r["thp"] for r in rows(out, "SELECT variant, thp FROM trial")}
    assert f"defrag {settings['thp_defrag']}" in words["other"]
    assert ("64K" in words["other"]) == ("thp_sizes" in keys)
    assert "defrag" not in words["glibc"]
    [asked] = rows(out, "SELECT thp FROM variant WHERE name = 'other'")
    assert asked["thp"] == thp.describe_settings(settings)
    assert thp.read_host() == before
    assert not list(machine_lock.THIS_MACHINE.directory.glob("holder-*"))


@pytest.mark.parametrize("who", ["doctor", "bench"])
def test_killed_with_its_guardian_the_mode_is_put_back_by_the_next(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path, other_mode: str, who: str
) -> None:
    before = thp_mode()
    file = tiny_experiment(
        variant=[{"name": "glibc"}, {"name": "other", "thp": other_mode}], time=QUICK
    )
    process = run_cli.start("bench", file, "--out", out)
    wait_until(lambda: switched(other_mode) or process.poll() is not None)
    guardian = next(pid for pid, words in processes_of(home).items() if "guardian.py" in words)
    # It puts the mode back itself when it finds its guardian gone, and must not have the time.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for pid in (guardian, process.pid):
        os.kill(pid, signal.SIGKILL)
    run_cli.end(process)
    wait_until(lambda: not processes_of(home))
    assert switched(other_mode), "it was left changed"
    # What the guardian would have removed; the doctor tells of it.
    for path in [*(home / "tmp").glob("dballoc-*"), *home.rglob("cache/scratch/*")]:
        shutil.rmtree(path)
    done = run_cli("doctor") if who == "doctor" else run_cli("bench", file, "--out", out)
    assert thp_mode() == before
    assert done.status == 0, done.text
    assert f"{thp.ENABLED}" in done.stdout
    assert f"from {other_mode} to {thp.read_mode()}" in " ".join(done.stdout.split())


def test_a_trial_in_whose_time_somebody_else_has_switched_is_lost(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path, other_mode: str
) -> None:
    mode = thp.read_mode()
    assert mode
    file = tiny_experiment(variant=[{"name": "glibc"}], time=QUICK)
    process = run_cli.start("bench", file, "--out", out)
    wait_until(lambda: server_pid(home) or process.poll() is not None)
    try:
        Path(thp.ENABLED).write_text(other_mode)
        done = run_cli.end(process)
    finally:
        Path(thp.ENABLED).write_text(mode)
    assert done.status == 1, done.text
    assert f"somebody else switched it from {mode} to {other_mode}" in done.stderr
    assert rows(out, "SELECT * FROM trial") == []
    assert run_cli("bench", out / "experiment.toml", "--out", out).status == 0


def test_a_replay_has_its_own_mode_of_thp(
    run_cli: Cli, out: Path, home: Path, other_mode: str
) -> None:
    before, trace = thp.read_host(), home / "thp.trace"
    write_trace(make_trace(2, 4000), trace)
    modes = f"{before['thp']},{other_mode}"
    done = run_cli(
        "replay", trace, "--allocators", "glibc", "--thp", modes, "--blocks", "1", "--idle", "0s",
        "--out", out,
    )  # fmt: skip
    assert done.status == 0, done.text
    assert thp.read_host() == before
    had = {(r["variant"], r["thp"].split(",")[0]) for r in rows(out, "SELECT * FROM trial")}
    assert had == {(f"glibc-thp={mode}", mode) for mode in modes.split(",")}
