"""What the driver makes of Ray's answers, without Ray's processes; with them:
tests/integration/test_hosts_on_ray.py.
"""

import importlib
import inspect
import json
import os
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import dballoc
from dballoc.campaign.elsewhere import ray_node
from dballoc.campaign.elsewhere.executor import HostLine, HostLost
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.guardian.guardian import STAMP
from dballoc.host.machine_description import describe_machine

ray_executor = pytest.importorskip("dballoc.campaign.elsewhere.ray_executor", exc_type=ImportError)

NODE = {
    "NodeID": "1a" * 28,
    "Alive": True,
    "NodeManagerAddress": "10.0.0.1",
    "Resources": {"dballoc_server": 1.0},
}
GONE = ray_executor.RayError("its host is away")


def describe(**changes: Any) -> bytes:
    words = {
        "dballoc": dballoc.__version__,
        "kernel": "k1",
        "environment": describe_machine() | {"host": "db1"},
    }
    return json.dumps(words | changes).encode()


class FakeRay:
    """Answers are what was put into them; what is None has not come. ``waits``: how long was waited
    for answers, seconds; ``arguments``: of the calls, by function; a function in ``answers`` is
    called when its answer is taken.
    """

    def __init__(self) -> None:
        self.alive = [NODE]
        self.answers: dict[str, Any] = {}
        self.waits: list[float] = []
        self.calls = self.cancelled = 0
        self.arguments: dict[str, list[Any]] = {}

    def nodes(self) -> list[dict[str, Any]]:
        return self.alive

    def remote(self, function: Any) -> Any:
        name = function.__name__

        def answer() -> Any:
            value = self.answers.get(name)
            return value() if callable(value) else value

        def call(*arguments: Any) -> Any:
            self.calls += 1
            self.arguments.setdefault(name, []).append(arguments)
            return SimpleNamespace(answer=answer)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=call))

    def wait(self, some: list[Any], *, num_returns: int, timeout: float) -> Any:
        """Like Ray's, which also fetches what is ready unless it is told not to."""
        self.waits.append(timeout)
        ready = [each for each in some if each.answer() is not None][:num_returns]
        return ready, [each for each in some if each not in ready]

    def cancel(self, one: Any) -> None:
        self.cancelled += 1

    def get(self, one: Any, timeout: float) -> Any:
        value = one.answer()
        if isinstance(value, Exception):
            raise value
        if value is None:
            self.waits.append(timeout)
            raise ray_executor.RayError("not in time")
        return value


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay()
    monkeypatch.setattr(ray_executor, "ray", ray)
    return ray


def make_executor(notices: list[str], answer: Any = None) -> Any:
    """An executor with a block under way on a host, whose next line is ``answer``."""
    executor = ray_executor.RayExecutor(notices.append)
    lines = FakeLines(answer)
    now = time.monotonic()
    executor._tasks["db2"] = ray_executor._RayTask(
        node="n2", actor=None, lines=lines, renewed=now, answered=now
    )
    return executor


class FakeLines:
    def __init__(self, line: Any) -> None:
        self.answer = lambda: line

    def __next__(self) -> Any:
        return self


def test_a_host_is_a_node_that_answers(fake: FakeRay) -> None:
    fake.answers["describe_host"] = describe()
    executor = ray_executor.RayExecutor(print)
    (host,) = executor.list_hosts()
    assert host.name == "db1 (10.0.0.1)"
    assert host.kernel == "k1"
    assert host.roles == {"server"}
    executor.list_hosts()
    assert fake.calls == 1


def make_node(name: str, number: int, *resources: str) -> dict[str, Any]:
    return NODE | {
        "NodeID": name * 56,
        "NodeManagerAddress": f"10.0.0.{number}",
        "Resources": dict.fromkeys(resources, 1.0),
    }


SERVER, CLIENT = "dballoc_server", "dballoc_client"


@pytest.fixture
def time_here(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The driver's Unix time, as one number that a test may change."""
    now = [1000.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(ray_executor, "time", clock)
    return now


def test_a_slow_doctor_makes_no_clock_wrong(fake: FakeRay, time_here: list[float]) -> None:
    """Neither that of its own host, nor those of hosts whose answers waited for it."""
    fake.alive = [make_node("1", 1, SERVER), make_node("2", 2, SERVER)]
    fake.answers["describe_host"] = describe()

    def examine() -> bytes:
        time_here[0] += 90.0
        return b"[]"

    fake.answers["examine_host"] = examine
    fake.answers["tell_time"] = lambda: json.dumps({"time": time_here[0] + 7.0}).encode()
    executor = ray_executor.RayExecutor(print)
    executor.list_hosts()
    examined = executor.examine_hosts()
    assert [e.ahead for e in examined.values()] == pytest.approx([7.0, 7.0])


def test_the_fastest_round_trip_tells_the_clock(fake: FakeRay, time_here: list[float]) -> None:
    """The first one starts a process."""
    fake.answers |= {"describe_host": describe(), "examine_host": b"[]"}
    trips = iter([3.0, 0.2, 0.1, 0.4])

    def tell_time() -> bytes:
        """All of the way is before the answer."""
        time_here[0] += next(trips)
        return json.dumps({"time": time_here[0]}).encode()

    fake.answers["tell_time"] = tell_time
    executor = ray_executor.RayExecutor(print)
    executor.list_hosts()
    (examination,) = executor.examine_hosts().values()
    assert examination.ahead == pytest.approx(0.05)


@pytest.mark.parametrize("answer", [b"{}", b'{"time": "noon"}', b'{"time": 1e999}', 7, GONE])
def test_a_host_that_tells_no_time_is_named(fake: FakeRay, answer: Any) -> None:
    fake.answers |= {"describe_host": describe(), "examine_host": b"[]", "tell_time": answer}
    executor = ray_executor.RayExecutor(print)
    executor.list_hosts()
    (reason,) = executor.examine_hosts().values()
    assert isinstance(reason, str)


def test_hosts_are_examined_for_their_role(fake: FakeRay) -> None:
    fake.alive = [
        make_node("1", 1, SERVER),
        make_node("2", 2, CLIENT),
        make_node("3", 3, CLIENT, SERVER),
    ]
    fake.answers |= {
        "describe_host": describe(),
        "examine_host": b"[]",
        "tell_time": ray_node.tell_time,
    }
    executor = ray_executor.RayExecutor(print)
    executor.list_hosts()
    examined = executor.examine_hosts()
    assert fake.arguments["examine_host"] == [(False,), (True,), (False,)]
    assert all(abs(e.ahead) < 10 for e in examined.values())


@pytest.mark.parametrize(("is_for_clients", "flags"), [(True, ["--client-host"]), (False, [])])
def test_a_node_runs_the_doctor_for_its_role(
    monkeypatch: pytest.MonkeyPatch, is_for_clients: bool, flags: list[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(stdout=b"[]", stderr=b"", returncode=0)

    monkeypatch.setattr(ray_node.subprocess, "run", run)
    assert ray_node.examine_host(is_for_clients) == b"[]"
    assert commands[0][1:] == ["-I", "-m", "dballoc", "doctor", "--json", *flags]


def test_a_doctor_that_says_nothing_is_no_good_news(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = SimpleNamespace(stdout=b"", stderr=b"dballoc: no such option\n", returncode=2)
    monkeypatch.setattr(ray_node.subprocess, "run", lambda *_, **__: ended)
    (finding,) = json.loads(ray_node.examine_host(is_for_clients=False))
    assert finding["state"] == "missing"
    assert "status 2: dballoc: no such option" in finding["text"]


class FakeActor:
    """Notes what it takes of a node."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.run_block = SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=lambda request: [])
        )

    def options(self, resources: dict[str, Any], **_: Any) -> Any:
        self.taken.append(resources)
        return SimpleNamespace(remote=lambda module: self)


@pytest.mark.parametrize(
    ("resources", "taken"),
    [
        ({SERVER: 1.0, "CPU": 8.0}, {SERVER: 1}),
        ({SERVER: 1.0, CLIENT: 1.0}, {SERVER: 1, CLIENT: 1}),
        ({SERVER: 2.5, CLIENT: 0.5}, {SERVER: 2}),
    ],
)
def test_a_block_leaves_nothing_of_its_node_to_other_drivers(
    fake: FakeRay, resources: dict[str, float], taken: dict[str, int]
) -> None:
    fake.alive = [NODE | {"Resources": resources}]
    fake.answers["describe_host"] = describe()
    executor = ray_executor.RayExecutor(print)
    (host,) = executor.list_hosts()
    executor._actor = FakeActor()
    executor.start_block(host, SimpleNamespace(model_dump_json=lambda: "{}"))
    assert executor._actor.taken == [taken]


def test_a_silent_node_does_not_hold_up_blocks_under_way(fake: FakeRay) -> None:
    notices: list[str] = []
    executor = make_executor(notices)
    assert executor.list_hosts() == []
    assert max(fake.waits) == 0
    fake.answers["describe_host"] = describe()
    (host,) = executor.list_hosts()
    assert host.name == "db1 (10.0.0.1)"
    assert fake.calls == 1
    assert not notices


def test_a_node_that_stays_silent_is_named_once(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_DESCRIBE", -1.0)
    notices: list[str] = []
    executor = make_executor(notices)
    assert executor.list_hosts() == executor.list_hosts() == []
    assert len(notices) == 1
    assert len(executor.list_unusable()) == 1


def test_a_node_that_was_silent_is_asked_again(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "_DESCRIBE", -1.0)
    notices: list[str] = []
    executor = make_executor(notices)
    for _ in range(3):
        assert executor.list_hosts() == []
    assert (fake.calls, fake.cancelled, len(notices)) == (1, 1, 1)
    monkeypatch.setattr(ray_executor, "_DESCRIBE", 60.0)
    executor._asked_again = {NODE["NodeID"]: 0.0}
    fake.answers["describe_host"] = describe()
    (host,) = executor.list_hosts()
    assert host.name == "db1 (10.0.0.1)"
    assert fake.calls == 2
    assert executor.list_unusable() == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON"),
        ("text", "is not text"),
        (b" " * (readers.MIB + 1), "too long"),
        (describe(dballoc="0.0"), "it has dballoc 0.0, the driver"),
        (describe(kernel=7), "kernel"),
        (describe(environment={"cpus": "many"}), "environment.cpus"),
        (b"[]", "object"),
    ],
)
def test_a_node_that_describes_itself_wrongly_is_left_out(
    fake: FakeRay, text: Any, reason: str
) -> None:
    with pytest.raises(readers.Unfit, match=reason):
        ray_executor.read_description(text)
    fake.answers["describe_host"] = text
    notices: list[str] = []
    executor = ray_executor.RayExecutor(notices.append)
    assert executor.list_hosts() == []
    assert notices
    (sentence,) = executor.list_unusable()
    assert sentence.startswith("10.0.0.1: ")


def test_a_node_that_ray_knows_by_a_name_is_left_out(fake: FakeRay) -> None:
    fake.alive = [NODE | {"NodeManagerAddress": "db1"}]
    fake.answers["describe_host"] = describe()
    executor = ray_executor.RayExecutor(print)
    assert executor.list_hosts() == []
    (sentence,) = executor.list_unusable()
    assert "start Ray there with --node-ip-address=ADDRESS" in sentence


def test_one_address_is_one_host(fake: FakeRay) -> None:
    """A node that was lost and came back may be there twice; two that live have different
    resources.
    """
    fake.answers["describe_host"] = describe()
    executor = ray_executor.RayExecutor(print)
    fake.alive = [make_node("a", 1, SERVER), make_node("b", 1, SERVER)]
    (host,) = executor.list_hosts()
    assert executor._nodes[host.name].node_id == "b" * 56
    assert executor.list_unusable() == []
    fake.alive = [make_node("a", 1, SERVER), make_node("c", 1, CLIENT)]
    (host,) = executor.list_hosts()
    assert host.roles == {"server"}
    assert "Ray runs twice at its address" in executor.list_unusable("client")[0]
    assert executor.list_unusable("server") == []


def test_a_head_that_does_not_answer_is_a_failure(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(ray_executor, "_HEAD_SILENCE", 0.05)
    monkeypatch.setattr(fake, "nodes", lambda: is_over.wait(60))
    with pytest.raises(Failure, match=r"Ray's head does not answer: nothing for .* resume"):
        ray_executor.RayExecutor(print).list_hosts()
    is_over.set()


@pytest.mark.parametrize("asks_token", [True, False])
@pytest.mark.parametrize("has_token", [True, False])
def test_a_node_that_asks_for_no_token_where_the_driver_has_one_is_left_out(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch, has_token: bool, asks_token: bool
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if has_token:
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/root/ray-token")
    fake.answers["describe_host"] = describe(asks_token=asks_token)
    notices: list[str] = []
    hosts = ray_executor.RayExecutor(notices.append).list_hosts()
    is_refused = has_token and not asks_token
    assert len(hosts) == (0 if is_refused else 1)
    assert any("started without a token" in text for text in notices) is is_refused


@pytest.mark.parametrize(
    ("mode", "asks_token"), [("token", "true"), ("Token", "true"), ("disabled", "false")]
)
def test_a_node_says_whether_its_ray_asks_for_a_token(
    monkeypatch: pytest.MonkeyPatch, mode: str, asks_token: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    answer = ray_node.describe_host()
    assert f'"asks_token": {asks_token}'.encode() in answer
    assert ray_executor.read_description(answer).asks_token is (asks_token == "true")


HEAD = "node:__internal_head__"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("token", None),
        ("Token", None),
        ("", "was started without a token"),
        ("disabled", "was started without a token"),
        (GONE, "does not say whether it asks for a token: its host is away"),
    ],
)
def test_a_head_must_ask_for_a_token_though_it_runs_no_blocks(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch, mode: Any, words: str | None
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/root/ray-token")
    fake.alive = [make_node("a", 1, HEAD), make_node("b", 2, SERVER)]
    fake.answers["getenv"] = lambda: mode
    if words is None:
        ray_executor.check_head("10.0.0.1:6379")
    else:
        with pytest.raises(UsageError, match=words):
            ray_executor.check_head("10.0.0.1:6379")
    # The head alone was asked, for what needs no dballoc there.
    assert fake.arguments == {"getenv": [("RAY_AUTH_MODE", "")]}
    assert ray_executor.os.getenv.__module__ == "os"


def test_a_cluster_without_a_head_is_refused_and_the_loopback_needs_none(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    ray_executor.check_head("127.0.0.1:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/root/ray-token")
    with pytest.raises(UsageError, match="was started without a token"):
        ray_executor.check_head("10.0.0.1:6379")


@pytest.mark.parametrize(
    ("answer", "metadata"),
    [(b"{}", b"{}"), (None, None), (RuntimeError("no head"), None), (AttributeError(), None)],
)
def test_what_the_head_noted_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, answer: Any, metadata: bytes | None
) -> None:
    def get(key: bytes, *, namespace: bytes) -> Any:
        assert (key, namespace) == (b"CLUSTER_METADATA", b"cluster")
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray_executor.internal_kv, "_internal_kv_get", get)
    assert ray_executor._read_cluster_metadata() == metadata


def test_rays_names_for_what_a_head_notes_are_those_of_this_version() -> None:
    usage_lib = importlib.import_module("ray._common.usage.usage_lib")
    ray_constants = importlib.import_module("ray._private.ray_constants")
    assert usage_lib.usage_constant.CLUSTER_METADATA_KEY == b"CLUSTER_METADATA"
    assert ray_constants.KV_NAMESPACE_CLUSTER == b"cluster"
    source = inspect.getsource(usage_lib._generate_cluster_metadata)
    assert source.index("usage_stats_enabled()") < source.index('"session_start_timestamp_ms"')


def test_a_long_name_is_cut() -> None:
    description = ray_executor.read_description(
        describe(environment=describe_machine() | {"host": "x" * 10_000})
    )
    host = ray_executor.make_host(NODE, description)
    assert len(host.name) < 300
    assert host.name.endswith(" (10.0.0.1)")


@pytest.mark.parametrize(
    ("answer", "kind"), [(b"{}\n", HostLine), (GONE, HostLost), ("text", HostLost)]
)
def test_a_line_that_is_here_is_read_at_once(fake: FakeRay, answer: Any, kind: type) -> None:
    executor = make_executor([], answer)
    (event,) = executor.poll(1.0)
    assert isinstance(event, kind)
    assert event.host == "db2"


def test_a_host_that_always_has_a_line_keeps_no_other_waiting(fake: FakeRay) -> None:
    executor = make_executor([], b"{}\n")
    executor._tasks["db3"] = replace(executor._tasks["db2"], node="n3", lines=FakeLines(b"[]\n"))
    turns = [[event.host for event in executor.poll(1.0)] for _ in range(4)]
    assert turns == [["db2"], ["db3"], ["db2"], ["db3"]]


@pytest.mark.parametrize(
    ("has_answered", "node", "reason", "is_alive"),
    [
        (True, NODE["NodeID"], "no answer for", False),
        (False, NODE["NodeID"], "another campaign may have it", True),
        (False, "n2", "no answer for", False),
    ],
)
def test_a_host_where_nothing_begins_is_told_from_one_out_of_reach(
    fake: FakeRay, has_answered: bool, node: str, reason: str, is_alive: bool
) -> None:
    executor = make_executor([])
    task = executor._tasks["db2"]
    task.node, task.has_answered = node, has_answered
    task.answered -= ray_executor._SILENCE + 1
    (lost,) = executor.poll(0.0)
    assert isinstance(lost, HostLost)
    assert reason in lost.reason
    assert lost.is_alive is is_alive


def test_a_renewal_says_when_the_driver_was_heard() -> None:
    process = ray_node.BlockProcess("none")
    before = time.monotonic()
    process.renew()
    (heard,) = STAMP.unpack(os.read(process._lease_reader, 100))
    assert before <= heard <= time.monotonic()


def test_a_line_that_is_not_here_is_not_waited_for(fake: FakeRay) -> None:
    assert make_executor([]).poll(1.0) == []
    assert fake.waits == [1.0]


@pytest.mark.parametrize(("answer", "is_lost"), [(GONE, True), (b"", False)])
def test_renewals_that_fail_are_no_answers(fake: FakeRay, answer: Any, is_lost: bool) -> None:
    executor = make_executor([])
    task = executor._tasks["db2"]
    task.answered -= ray_executor._SILENCE + 1
    task.renewals.append(SimpleNamespace(answer=lambda: answer))
    events = executor.poll(0.0)
    assert any(isinstance(event, HostLost) for event in events) is is_lost


def test_lines_that_overtake_each_other_reach_a_process_in_their_order() -> None:
    process = ray_node.BlockProcess("none")
    for number, line in ((2, b"c\n"), (0, b"a\n"), (3, b"d\n"), (1, b"b\n")):
        process.hand_line(number, line)
    assert os.read(process._lines_reader, 100) == b"a\nb\nc\nd\n"


def test_lines_to_a_host_are_numbered(fake: FakeRay) -> None:
    executor = make_executor([])
    handed: list[tuple[int, bytes]] = []
    remote = SimpleNamespace(remote=lambda *arguments: handed.append(arguments))
    executor._tasks["db2"].actor = SimpleNamespace(hand_line=remote)
    for line in (b"a", b"b"):
        executor.hand_line("db2", line)
    executor.hand_line("nobody", b"c")
    assert handed == [(0, b"a"), (1, b"b")]
