"""What the exporter serves, to whom and how often: addresses, admission, the cache of looks, and
the text; the dashboard and the alert rules ask for no metric that it has not.
"""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_explanations import MIB, look
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dballoc.explain.explanation import Explanation
from dballoc.explain.exporter import look_cache, run_exporter
from dballoc.explain.exporter.address_and_access import (
    ListenAddress,
    make_admission,
    parse_listen_address,
)
from dballoc.explain.exporter.look_cache import LookCache, ServedLook, ServerLook, look_at_server
from dballoc.explain.exporter.run_exporter import Listening, check_listening
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.explain.watch import WatchPace
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.host.resources.cgroup_memory import CgroupMemory
from dballoc.host.resources.process_limits import ProcessLimits
from dballoc.host.unprivileged.sandbox import ELF_PARSER
from dballoc.process.usage import ProcessUsage

PROCESS = Process.own()
MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9109", ListenAddress(host="127.0.0.1", port=9109)),
        ("localhost:1", ListenAddress(host="127.0.0.1", port=1)),
        ("[::1]:65535", ListenAddress(host="::1", port=65535)),
        ("10.0.0.7:443", ListenAddress(host="10.0.0.7", port=443)),
        ("unix:/run/x/s", ListenAddress(path="/run/x/s")),
    ],
)
def test_an_address(text: str, address: ListenAddress) -> None:
    assert parse_listen_address(text) == address
    assert address.is_local == (not text.startswith("10."))


@pytest.mark.parametrize(
    "text",
    ["", "9109", ":9109", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "::1:9109",
     "[127.0.0.1]:9109", "example.org:9109", "127.0.0.1:９109", "unix:", "unix:s", "unix:/a\0b",
     "unix:/" + "a" * 107, "127.0.0.1:1e3"],
)  # fmt: skip
def test_no_address_is_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_listen_address(text)
    assert "\n" not in str(refused.value)
    assert "127.0.0.1:9109" in str(refused.value)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_listen_address(text)
    except UsageError:
        return
    assert address.path or 0 < address.port < 2**16


def test_names_of_loopback_and_no_others_are_answered_there() -> None:
    admission = make_admission(parse_listen_address("127.0.0.2:9109"), b"")
    # Through kubectl port-forward or ssh -L the port is another one.
    for host in ("localhost:9109", "127.0.0.1:1", "127.0.0.2:9109", "[::1]:9109", "LOCALHOST"):
        assert admission.refuse([host], []) == 0
    for hosts in (
        [], [""], ["evil:9109"], ["localhost:9109"] * 2, ["localhost:9109.evil"], ["127.0.0.3"],
        ["localhost.evil"], ["evil.localhost:9109"], ["localhost:"], ["localhost@evil"], ["[::2]"],
        ["localhost:9109\n"], ["local\u212aost"],
    ):  # fmt: skip
        assert admission.refuse(hosts, []) == 421


@given(st.binary(min_size=1, max_size=40), st.text(max_size=60))
def test_only_the_token_is_the_token(token: bytes, sent: str) -> None:
    admission = make_admission(ListenAddress(host="10.0.0.1", port=1), token)
    right = f"Bearer {token.decode('latin-1')}"
    assert admission.refuse([], [right]) == 0
    assert admission.refuse([], [sent]) == (0 if sent == right else 401)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": ListenAddress(host="0.0.0.0", port=9109)}, "everybody on the network"),
        ({"address": ListenAddress(host="10.0.0.1", port=1), "token_file": Path("t")}, "--tls-cert"),
        ({"tls_cert": Path("c")}, "together"),
        ({"address": ListenAddress(path="/s"), "tls_cert": Path("c"), "tls_key": Path("k")}, "needs no TLS"),
    ],
)  # fmt: skip
def test_what_is_not_safe_is_refused(changes: dict[str, Any], words: str) -> None:
    safe = Listening(
        address=ListenAddress(host="127.0.0.1", port=9109),
        tls_cert=None,
        tls_key=None,
        token_file=None,
        run_as="nobody",
    )
    check_listening(safe)
    with pytest.raises(UsageError, match=re.escape(words)):
        check_listening(replace(safe, **changes))


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("0123456789abcdef\n", 0o600, None),
        ("0123456789abcdef\n", 0o640, "others may read it"),
        ("short\n", 0o600, "16 or more"),
        ("0123456789 abcdef\n", 0o600, "16 or more"),
        ("0123456789\nabcdef\n", 0o600, "16 or more"),
        ("x" * 5000, 0o600, "larger"),
    ],
)
def test_a_token_file(tmp_path: Path, content: str, mode: int, words: str | None) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    if words is None:
        assert run_exporter._read_token(path) == content.strip().encode()
        return
    with pytest.raises(UsageError, match=words):
        run_exporter._read_token(path)


def test_no_token_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--token-file"):
        run_exporter._read_token(tmp_path / "none")


class Clock:
    """Seconds that pass when a test says so, and what was said meanwhile."""

    def __init__(self) -> None:
        self.now = self.cpu = 100.0
        self.lines: list[str] = []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(look_cache.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(look_cache.time, "process_time", lambda: clock.cpu)
    return clock


def make_cache(clock: Clock, looks: Iterator[Explanation | Exception], cost: float) -> LookCache:
    def take(process: Process) -> Explanation:
        clock.cpu += cost
        clock.now += cost
        reading = next(looks)
        if isinstance(reading, Exception):
            raise reading
        return reading

    return LookCache(
        lambda: look_at_server(lambda: PROCESS, take),
        WatchPace(every=5, span=None, share=0.01),
        clock.lines.append,
    )


def test_looks_take_no_more_than_their_share_however_often_they_are_asked_for(
    clock: Clock,
) -> None:
    cache = make_cache(clock, (look(taken=1e9 + i) for i in range(1000)), cost=0.2)
    began = clock.now
    for _ in range(600):
        served = cache.serve()
        assert served.explanation
        assert served.age <= served.pause
        clock.now += 1
    # A look of 0.2 s every 20 s is 1 % of a CPU.
    assert served.looks == pytest.approx((clock.now - began) / 20, abs=2)
    assert served.pause == pytest.approx(20)


def test_what_the_parser_took_is_of_the_looks_cost(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = (look(taken=1e9 + i) for i in range(2))

    def take(process: Process) -> Explanation:
        monkeypatch.setattr(ELF_PARSER, "_cpu", ELF_PARSER.cpu_seconds + 0.5)
        return next(readings)

    cache = LookCache(
        lambda: look_at_server(lambda: PROCESS, take),
        WatchPace(every=5, span=None, share=0.01),
        clock.lines.append,
    )
    served = cache.serve()
    assert (served.cost, served.pause) == (pytest.approx(0.5), pytest.approx(50))


def test_a_server_that_ends_is_not_shown_as_it_was(clock: Clock) -> None:
    ended = Failure("it has ended")
    looks = iter([look(taken=1e9), ended, ended, look(taken=1e9 + 20)])
    cache = make_cache(clock, looks, cost=0.01)
    assert cache.serve().explanation
    clock.now += 6
    gone = cache.serve()
    assert (gone.explanation, gone.reason, gone.failures) == (None, "it has ended", 1)
    clock.now += 6
    assert not cache.serve().explanation
    clock.now += 6
    assert cache.serve().explanation
    # Each change is said once, whatever is asked in between.
    assert clock.lines == [
        f"looking at {PROCESS}",
        "nothing to look at: it has ended",
        f"looking at {PROCESS}",
    ]


def test_a_look_that_breaks_is_not_tried_more_often(clock: Clock) -> None:
    cache = make_cache(clock, iter([ZeroDivisionError(), look(taken=1e9)]), cost=0.2)
    with pytest.raises(ZeroDivisionError):
        cache.serve()
    for _ in range(10):
        clock.now += 1
        assert cache.serve().failures == 1
    clock.now += 20
    assert cache.serve().explanation


def test_verdicts_are_over_all_looks_at_one_process(clock: Clock) -> None:
    processes = [PROCESS] * 8 + [replace(PROCESS, started=1)]
    looks = (look(taken=1e9 + 10 * i) for i in range(100))
    cache = LookCache(
        lambda: ServerLook(process=processes.pop(0), explanation=next(looks)),
        WatchPace(every=5, span=None, share=0.01),
        clock.lines.append,
    )

    def growth() -> str:
        clock.now += 6
        reading = cache.serve().explanation
        assert reading
        [level] = [v.level for v in reading.verdicts if v.key == "growth"]
        return level

    assert [growth() for _ in range(8)][-1] == "fine"
    assert growth() == "open"


def test_who_asks_during_a_look_gets_that_look() -> None:
    began, go_on, calls = threading.Event(), threading.Event(), 0

    def take(process: Process) -> Explanation:
        nonlocal calls
        calls += 1
        began.set()
        assert go_on.wait(60)
        return look(taken=1e9)

    cache = LookCache(
        lambda: look_at_server(Process.own, take), WatchPace(every=1e6, span=None, share=1), print
    )
    served: list[ServedLook] = []
    threads = [threading.Thread(target=lambda: served.append(cache.serve())) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert began.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert (calls, len(served)) == (1, 4)


def test_who_asks_while_a_server_does_not_answer_gets_the_last_look() -> None:
    began, go_on = threading.Event(), threading.Event()
    looks = iter([look(taken=1e9), look(taken=2e9)])

    def take(process: Process) -> Explanation:
        reading = next(looks)
        if reading.timestamp > 1e9:
            began.set()
            assert go_on.wait(60)
        return reading

    cache = LookCache(
        lambda: look_at_server(Process.own, take), WatchPace(every=0.0, span=None, share=1e9), print
    )
    assert cache.serve().looks == 1
    stalled = threading.Thread(target=cache.serve)
    stalled.start()
    assert began.wait(60)
    served = cache.serve()
    assert served.explanation
    assert (served.looks, served.explanation.timestamp) == (1, 1e9)
    go_on.set()
    stalled.join(60)


def full_look() -> Explanation:
    """An explanation with everything in it that a metric is made of."""
    group = CgroupMemory(
        name="/pod",
        limit=2048 * MIB,
        high=1900 * MIB,
        charged=1500 * MIB,
        inactive_file=100 * MIB,
        events={"high": 3, "max": 2, "oom": 1, "oom_kill": 1},
        pressure={f"{k} avg{w}": 1.5 for k in ("some", "full") for w in (10, 60, 300)},
    )
    figures = {**look().evidence.figures, "innodb_buffer_pool_size": 800 * MIB}
    reading = look(
        cgroup=group,
        cpus=ProcessLimits(64, 2.0, 2048 * MIB),
        online_cpus=64,
        figures=figures,
        sessions=[("secret_user", 3, 9 * MIB)],
    )
    usage = ProcessUsage(vsz=9, reserved=1, cpu_seconds=2.0, running_seconds=3.0)
    leak = MemoryVerdict(key="leak", level="problem", headline="SELECT secret")
    return replace(reading, usage=usage, verdicts=[*reading.verdicts, leak])


def serve(reading: Explanation | None) -> str:
    return run_exporter.render_metrics(
        ServedLook(
            explanation=reading,
            reason="" if reading else "gone from /var/lib/secret",
            age=1.25,
            cost=0.07,
            pause=7,
            looks=3,
            failures=1,
        )
    )


def test_the_text_is_openmetrics_with_the_exporters_own_metrics() -> None:
    families = {f.name: f for f in text_string_to_metric_families(serve(full_look()))}
    [up] = families["dballoc_up"].samples
    [age] = families["dballoc_look_age_seconds"].samples
    assert (up.value, age.value) == (1, 1.25)
    sizes = {s.labels["of"]: s.value for s in families["dballoc_cgroup_bytes"].samples}
    assert sizes["working_set"] == 1400 * MIB
    assert {s.labels["of"] for s in families["dballoc_pool_bytes"].samples} == {
        "safe",
        "configured",
        "filled",
    }


def test_without_a_server_up_is_0_and_nothing_is_of_it() -> None:
    names = {f.name: f for f in text_string_to_metric_families(serve(None))}
    assert names["dballoc_up"].samples[0].value == 0
    assert "dballoc_rss_bytes" not in names


def test_no_user_no_statement_and_no_path_of_a_failure_is_told() -> None:
    for text in (serve(full_look()), serve(None)):
        assert "secret" not in text


def test_a_server_that_names_ten_thousand_owners_makes_few_series() -> None:
    reading = look({f"owner {i}": 1 + i / 1e4 for i in range(10_000)})
    families = {f.name: f for f in text_string_to_metric_families(serve(reading))}
    samples = families["dballoc_memory_bytes"].samples
    assert len(samples) < 200
    [rest] = families["dballoc_rest_bytes"].samples
    assert sum(s.value for s in samples) + rest.value == reading.ledger.rss


METRIC = re.compile(r"\bdballoc_[a-z_]+")


@pytest.fixture(scope="module")
def samples() -> dict[str, dict[str, set[str]]]:
    """Every sample that the exporter prints: name -> label -> values."""
    names: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(serve(full_look())):
        for sample in family.samples:
            labels = names.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return names


SELECTOR = re.compile(r"\b(dballoc_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(=~|!=|!~|=)\s*"([^"]*)"')


def check_expression(expression: str, samples: dict[str, dict[str, set[str]]]) -> None:
    """Every metric of an expression is one that is printed, with these labels, or Prometheus' own."""
    if expression == 'up{job="dballoc"} == 0':
        return
    assert METRIC.search(expression)
    for name, matchers in SELECTOR.findall(expression):
        assert name in samples, f"{name} in {expression}"
        for label, operator, value in MATCHER.findall(matchers):
            if label in ("job", "instance"):
                continue
            assert label in samples[name], f"{label} of {name}"
            if operator == "=" and label not in ("key", "level", "owner", "group"):
                assert value in samples[name][label], f"{label}={value} of {name}"


def test_the_dashboard_asks_for_nothing_else(samples: dict[str, dict[str, set[str]]]) -> None:
    dashboard = json.loads((MONITORING / "dballoc-dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            check_expression(target["expr"], samples)
    shown = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    for name in ("dballoc_rss_bytes", "dballoc_memory_bytes", "dballoc_cgroup_bytes", "dballoc_up"):
        assert name in shown


def test_the_alert_rules_ask_for_nothing_else(samples: dict[str, dict[str, set[str]]]) -> None:
    rules = yaml.safe_load((MONITORING / "dballoc-alerts.yml").read_text())
    [group] = rules["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) > 4
    for rule in group["rules"]:
        check_expression(rule["expr"], samples)
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_keys_of_verdicts_in_rules_are_verdicts() -> None:
    sources = Path(look_cache.__file__).parents[1] / "verdicts"
    keys = {
        key
        for path in sources.glob("*.py")
        for key in re.findall(r'key="([a-z_]+)"', path.read_text())
    }
    text = (MONITORING / "dballoc-alerts.yml").read_text() + (
        MONITORING / "dballoc-dashboard.json"
    ).read_text().replace('\\"', '"')
    named = set(re.findall(r'key="([a-z_]+)"', text))
    assert named
    assert named <= keys
