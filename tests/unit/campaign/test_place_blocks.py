"""Which block goes to which host, and who may join a cluster."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.elsewhere import ray_access
from dballoc.campaign.elsewhere.block_request import find_difference
from dballoc.campaign.elsewhere.client.pair_hosts import describe_pairs
from dballoc.campaign.elsewhere.place_blocks import (
    Host,
    HostLoad,
    Role,
    choose_block,
    choose_hosts,
    count_complete_prefix,
    count_pairs,
    find_limit,
)
from dballoc.campaign.elsewhere.ray_node import make_environment
from dballoc.ground.errors import UsageError
from dballoc.store.facts import Environment


def make_host(name: str, kernel: str | None = None) -> Host:
    return Host(name=name, kernel=kernel or name, environment=Environment())


A, B, C = (make_host(name) for name in "abc")


@given(complete=st.sets(st.integers(1, 12)))
def test_the_prefix_is_what_is_complete_without_a_gap(complete: set[int]) -> None:
    number = count_complete_prefix(complete)
    assert set(range(1, number + 1)) <= complete
    assert number + 1 not in complete


@pytest.mark.parametrize(
    ("complete", "planned", "limit"), [(0, 30, 6), (5, 30, 6), (6, 30, 10), (10, 12, 12), (0, 4, 4)]
)
def test_blocks_enter_up_to_the_next_look(complete: int, planned: int, limit: int) -> None:
    assert find_limit(complete, (6, 10, 14), planned) == limit


@pytest.mark.parametrize(
    ("limits", "complete", "running", "chosen"),
    [
        ({"solo": 2, "duet": 2}, (), (), ("duet", 1)),
        ({"solo": 2, "duet": 2}, (), [("duet", 1)], ("solo", 1)),
        ({"solo": 2}, (1,), (), ("solo", 2)),
        ({"solo": 2}, (1,), [("solo", 2)], None),
        ({"solo": 1}, (1,), (), None),
        ({}, (), (), None),
    ],
)
def test_the_next_block(
    limits: dict[str, int], complete: Any, running: Any, chosen: tuple[str, int] | None
) -> None:
    order = [("duet", 1), ("solo", 1), ("duet", 2), ("solo", 2)]
    assert choose_block(order, limits, {"solo": complete, "duet": ()}, running) == chosen


@pytest.mark.parametrize(
    ("busy", "load", "name"),
    [
        ((), HostLoad(), "a"),
        (("a",), HostLoad(), "b"),
        ((), HostLoad(blocks={"a": 2, "b": 1, "c": 2}), "b"),
        ((), HostLoad(lost={"a": {("solo", 1)}}), "b"),
        ((), HostLoad(lost={"a": {("solo", 1)}}, blocks={"b": 9, "c": 9}), "b"),
        (("b", "c"), HostLoad(lost={"a": {("solo", 1)}}), "a"),
        ((), HostLoad(refused={"a": "it has none"}), "b"),
        ((), HostLoad(free_at={"a": 101.0, "b": 99.0}), "b"),
        (("b", "c"), HostLoad(free_at={"a": 101.0}), None),
        (("a", "b", "c"), HostLoad(), None),
    ],
)
def test_the_host_of_a_block(busy: Any, load: HostLoad, name: str | None) -> None:
    pair = choose_hosts([A, B, C], busy, load, ("solo", 1), 100.0)
    assert (pair.server.name if pair else None) == name
    assert pair is None or pair.client is None


def test_hosts_of_one_kernel_are_busy_together() -> None:
    pair = [make_host("a", "one"), make_host("b", "one")]
    assert choose_hosts(pair, {"one"}, HostLoad(), ("solo", 1), 0.0) is None


def make_client(name: str, kernel: str | None = None, *roles: Role) -> Host:
    return replace(make_host(name, kernel), roles=frozenset({"client", *roles}))


X, Y = make_client("x"), make_client("y")


@pytest.mark.parametrize(
    ("hosts", "busy", "load", "names"),
    [
        ([A, X], (), HostLoad(), ("a", "x")),
        ([A, X, Y], (), HostLoad(blocks={"x": 1}), ("a", "y")),
        ([A, B, X], (), HostLoad(blocks={"a": 1}), ("b", "x")),
        ([A, X, Y], ("x",), HostLoad(), ("a", "y")),
        ([A, X], ("x",), HostLoad(), None),
        ([A, B], (), HostLoad(), None),
        ([X, Y], (), HostLoad(), None),
        ([A, X], (), HostLoad(refused={"x": "it has no sysbench"}), None),
        ([A, X, Y], (), HostLoad(lost={"x": {("solo", 1)}}), ("a", "y")),
        # Of a client beside the server and one on another kernel, the second.
        ([A, make_client("w", "a"), X], (), HostLoad(blocks={"x": 9}), ("a", "x")),
        ([A, make_client("w", "a")], (), HostLoad(), ("a", "w")),
        # A host of both roles runs a server or a client, never both of one block.
        ([make_client("b", None, "server")], (), HostLoad(), None),
        ([A, make_client("b", None, "server"), X], (), HostLoad(), ("a", "x")),
        ([make_client("b", None, "server"), make_client("c", None, "server")], (), HostLoad(), ("b", "c")),
    ],
)  # fmt: skip
def test_the_two_hosts_of_a_block(
    hosts: list[Host], busy: Any, load: HostLoad, names: tuple[str, str] | None
) -> None:
    pair = choose_hosts(hosts, busy, load, ("solo", 1), 100.0, apart=True)
    assert (tuple(host.name for host in pair.hosts) if pair else None) == names


@pytest.mark.parametrize(
    ("hosts", "apart", "count"),
    [
        ([A, B, C], False, 3),
        ([A, B, X], False, 2),
        ([A, B, X], True, 1),
        ([A, B, X, Y], True, 2),
        ([make_client(n, None, "server") for n in "abcde"], True, 2),
        ([A], True, 1),
    ],
)
def test_blocks_at_once(hosts: list[Host], apart: bool, count: int) -> None:
    assert count_pairs(hosts, apart) == count


def test_a_kernel_that_both_have_is_told() -> None:
    assert "shares its kernel" in str(describe_pairs([A, make_client("x", "a")]))
    assert describe_pairs([A, make_client("x", "a"), Y]) is None
    assert describe_pairs([A]) is None


@pytest.mark.parametrize(
    ("asked", "there", "words"),
    [
        ({"g": {"server": "10.11"}}, {"g": {"server": "10.11"}}, None),
        ({"g": {"server": "10.11"}}, {"g": {"server": "11.4"}}, "11.4, on the driver 10.11"),
        ({"g": {"thp": None}}, {"g": {"thp": "always"}}, "thp always, on the driver none"),
        ({"g": {"server_version": "1"}}, {}, "server version none, on the driver 1"),
    ],
)
def test_variants_must_be_the_same(asked: Any, there: Any, words: str | None) -> None:
    difference = find_difference(asked, there)
    assert difference is None if words is None else words in str(difference)


# -- who may join -----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "[::1]:6379", "localhost:6379"])
def test_the_loopback_needs_no_token(address: str) -> None:
    ray_access.check_access(address, {})


@pytest.mark.parametrize(
    "address", ["10.0.0.1:6379", "db1:6379", "0.0.0.0:6379", "[::]:6379", "127.0.0.2:6379"]
)
@pytest.mark.parametrize(
    "environment",
    [{}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_TOKEN_PATH": "/etc/hostname"}, {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "/etc/hostname"}],
)  # fmt: skip
def test_others_need_a_token(address: str, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="RAY_AUTH_MODE=token"):
        ray_access.check_access(address, environment)


@pytest.mark.parametrize("address", ["", "db1", "db1:", ":6379", "db1:x", "db1:0", "db1:70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        ray_access.check_access(address, {})


@pytest.mark.parametrize(
    ("mode", "content", "refusal"),
    [
        (0o600, "secret", None),
        (0o640, "secret", "others can read it"),
        (0o600, "", "a token in it"),
    ],
)
def test_the_token_is_for_its_owner_alone(
    tmp_path: Path, mode: int, content: str, refusal: str | None
) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    token.chmod(mode)
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    if refusal is None:
        ray_access.check_access("10.0.0.1:6379", environment)
        return
    with pytest.raises(UsageError, match=refusal):
        ray_access.check_access("10.0.0.1:6379", environment)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_rays_own_file_is_held_to_the_same_rules(tmp_path: Path, mode: int) -> None:
    token = tmp_path / ".ray/auth_token"
    environment = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    with pytest.raises(UsageError, match="there is no token: set RAY_AUTH_TOKEN_PATH"):
        ray_access.check_access("10.0.0.1:6379", environment)
    token.parent.mkdir()
    token.write_text("secret")
    token.chmod(mode)
    if mode == 0o600:
        ray_access.check_access("10.0.0.1:6379", environment)
        return
    with pytest.raises(UsageError, match=r"auth_token: others can read it"):
        ray_access.check_access("10.0.0.1:6379", environment)


def test_a_token_in_the_environment_comes_first(tmp_path: Path) -> None:
    """As KubeRay has it, of a Secret; Ray does not read the file then."""
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret"}
    ray_access.check_access("10.0.0.1:6379", environment)
    path = str(tmp_path / "none")
    ray_access.check_access("10.0.0.1:6379", environment | {"RAY_AUTH_TOKEN_PATH": path})
    for empty in ({"RAY_AUTH_TOKEN": ""}, {"RAY_AUTH_MODE": "disabled"}):
        with pytest.raises(UsageError):
            ray_access.check_access("10.0.0.1:6379", environment | empty)


def test_a_token_that_is_not_there_is_named(tmp_path: Path) -> None:
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")}
    with pytest.raises(UsageError, match="none: No such file"):
        ray_access.check_access("10.0.0.1:6379", environment)


def test_a_cluster_without_a_token_has_no_node_beyond_the_loopback(tmp_path: Path) -> None:
    ray_access.check_nodes("127.0.0.1:6379", ["127.0.0.1"], {})
    with pytest.raises(UsageError, match=r"has a node at 10\.0\.0\.1, which is not the loopback"):
        ray_access.check_nodes("127.0.0.1:6379", ["127.0.0.1", "10.0.0.1"], {})
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path)}
    ray_access.check_nodes("10.0.0.1:6379", ["10.0.0.1", "10.0.0.2"], environment)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8265", "http://localhost:8265/", "[::1]:8265"])
def test_a_dashboard_that_nobody_else_reaches(url: str) -> None:
    ray_access.check_dashboard(url)


@pytest.mark.parametrize("url", ["10.0.0.1:8265", "http://head.example:8265", "0.0.0.0:8265"])
def test_a_dashboard_that_others_reach_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"Ray's dashboard listens at .*--include-dashboard=false"):
        ray_access.check_dashboard(url)


@pytest.mark.parametrize(
    ("metadata", "is_told"),
    [
        (b'{"ray_version": "2.60.0", "session_start_timestamp_ms": 1}', True),
        (b'{"ray_version": "2.60.0", "ray_init_cluster": false}', False),
        (b"[]", False),
        (b"nonsense", False),
        (None, False),
    ],
)
def test_a_cluster_that_reports_its_use_is_told(metadata: bytes | None, is_told: bool) -> None:
    told = ray_access.describe_usage_reports(metadata)
    assert told is None or "--disable-usage-stats" in told
    assert bool(told) is is_told


def test_servers_get_nothing_of_rays_settings() -> None:
    environment = {"PATH": "/bin", "RAY_AUTH_TOKEN_PATH": "/root/token", "RAY_JOB_ID": "1"}
    environment["RAY_AUTH_TOKEN"] = "secret"
    assert make_environment(environment) == {"PATH": "/bin"}
    assert make_environment(dict(os.environ)) is not os.environ
