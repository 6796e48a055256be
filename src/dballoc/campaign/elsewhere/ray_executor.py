"""Blocks on the nodes of a Ray cluster. A host is a node with the resource ``dballoc_server``, or
``dballoc_client`` for clients of servers elsewhere. Ray repeats nothing: what becomes of a lost
block is the campaign's decision.
"""

import contextlib
import ipaddress
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import ray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ray.exceptions import RayError
from ray.experimental import internal_kv
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dballoc
from dballoc.campaign.elsewhere import ray_access, ray_node
from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.load_messages import ClientRequest
from dballoc.campaign.elsewhere.client.server_clock import ClockReading, choose_reading
from dballoc.campaign.elsewhere.driver.run_on_hosts import LEASE
from dballoc.campaign.elsewhere.executor import Event, HostLine, HostLost
from dballoc.campaign.elsewhere.place_blocks import Host, Role
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.store.facts import Environment

# The resource of each role. A process of a block takes all of both that its node has: no other
# driver may use a node at the same time, in whatever role.
RESOURCES: Mapping[Role, str] = {"server": "dballoc_server", "client": "dballoc_client"}
_MODULES: Mapping[Role, str] = {
    "server": "dballoc.campaign.elsewhere.node_block",
    "client": "dballoc.campaign.elsewhere.client.node_client",
}
# Seconds: between renewals of a lease; without an answer to one, after which a host is lost, which
# is later than the host itself has given up; for a host to say what it is.
_RENEW_EVERY = 5.0
_SILENCE = LEASE + 15.0
_DESCRIBE = 60.0
# Without an answer of Ray's head, which is gone then: Ray's own library ends the process after a
# minute without a word of ours.
_HEAD_SILENCE = 20.0
# When a node that did not say what it is is asked again.
_ASK_AGAIN = 120.0
_EXAMINE = 180.0
# How often a host is asked for its time: for the first, Ray may have to start a process there.
_CLOCK_READINGS = 4
# The resource by which Ray marks a cluster's head.
_HEAD = "node:__internal_head__"
_LONGEST_DESCRIPTION = readers.MIB
_LONGEST_NAME = 255


class HostDescription(BaseModel):
    """What a host says of itself. ``asks_token``: whether its Ray does."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dballoc: str = Field(max_length=100)
    kernel: str = Field(max_length=100)
    environment: Environment
    asks_token: bool = False


class HostFinding(BaseModel):
    """A finding of a host's doctor."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(max_length=1000)
    state: Literal["ok", "note", "warn", "missing"]
    text: str = Field(max_length=10_000)
    remedy: str = Field(max_length=10_000)


class HostExamination(BaseModel):
    """What a host's doctor says; ``ahead``: seconds by which its clock is ahead of ours."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    findings: list[HostFinding] = Field(max_length=1000)
    ahead: float


class HostTime(BaseModel):
    """What a host's clock says, Unix time."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    time: float


@dataclass(frozen=True)
class _RayNode:
    """A node by Ray's ID of it, and how much it has of each resource of ours."""

    node_id: str
    resources: Mapping[str, int]

    @property
    def is_for_clients(self) -> bool:
        """Whether it runs no servers."""
        return RESOURCES["server"] not in self.resources


@dataclass(kw_only=True)
class _RayTask:
    """A process of a block on a node: its actor, its stream of lines, and the renewals and lines to
    it that are not answered. ``has_answered``: whether any was; ``handed``: how many lines were
    handed to it.
    """

    node: str
    actor: Any
    lines: Any
    renewed: float
    answered: float
    has_answered: bool = False
    handed: int = 0
    renewals: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def connect(address: str, notice: Any) -> Iterator["RayExecutor"]:
    """Join a cluster, and leave it. Raises UsageError if it cannot be reached, or may not be
    used.
    """
    ray_access.check_access(address, os.environ)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        context = ray.init(
            address=address,
            namespace="dballoc",
            log_to_driver=False,
            configure_logging=False,
            **_name_own_address(address),
        )
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UsageError(
            f"--ray {address}: cannot join: {readers.reason(error)}; is Ray's head there, with the "
            "same version and token?"
        ) from None
    try:
        addresses = [str(n["NodeManagerAddress"]) for n in _list_nodes() if n["Alive"]]
        ray_access.check_nodes(address, addresses, os.environ)
        ray_access.check_dashboard(str(context.dashboard_url or ""))
        check_head(address)
        if reports := ray_access.describe_usage_reports(_read_cluster_metadata()):
            notice(reports)
        yield RayExecutor(notice)
    finally:
        ray.shutdown()


def _read_cluster_metadata() -> bytes | None:
    """Return what the head has noted of the cluster at its start; None if that cannot be read, as
    in another version of Ray.
    """
    try:
        metadata = internal_kv._internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster")
    except (RayError, RuntimeError, OSError, AttributeError, TypeError):
        return None
    return metadata if isinstance(metadata, bytes) else None


def check_head(address: str) -> None:
    """Raise UsageError if the cluster's head asks for no token although the driver has one: then it
    lets everybody in, whatever its other nodes ask. It may run no blocks, and lack dballoc, so what
    it is asked is of the standard library.
    """
    if not ray_access.has_token(os.environ):
        return
    heads = [str(n["NodeID"]) for n in _list_nodes() if n["Alive"] and _HEAD in n["Resources"]]
    try:
        answers = [_ask(ray.remote(os.getenv), head, ray_access.MODE, "") for head in heads]
        modes = [str(ray.get(answer, timeout=_DESCRIBE)) for answer in answers]
    except RayError as error:
        raise UsageError(
            f"--ray {address}: Ray's head does not say whether it asks for a token: "
            f"{readers.reason(error)}"
        ) from None
    ray_access.check_head(address, modes)


class RayExecutor:
    """Runs blocks on the cluster that this process has joined. ``notice``: told what the user
    should know of a host.
    """

    def __init__(self, notice: Any) -> None:
        self._notice = notice
        self._tasks: dict[str, _RayTask] = {}
        self._nodes: dict[str, _RayNode] = {}
        self._described: dict[str, HostDescription | None] = {}
        # By node: why it cannot be used; and when one that was silent is asked again.
        self._unusable: dict[str, str] = {}
        self._asked_again: dict[str, float] = {}
        # Descriptions that have not come yet, by node, each with when it counts as silent.
        self._awaited: dict[str, tuple[Any, float]] = {}
        self._actor: Any = ray.remote(ray_node.BlockProcess)

    def list_hosts(self) -> list[Host]:
        """Return the nodes that are alive, have a resource of ours, and this version of dballoc.
        Once there is one, a node that is slow to answer is left out until it has.
        """
        alive = [node for node in _list_nodes() if node["Alive"] and _list_roles(node)]
        self._ask_descriptions([str(node["NodeID"]) for node in alive])
        # Nobody's lease is renewed meanwhile, and known hosts have nothing to do.
        is_waited_for = not self._tasks and not any(self._described.values())
        self._take_descriptions(_DESCRIBE if is_waited_for else 0.0)
        hosts: dict[str, Host] = {}
        for node in alive:
            node_id = str(node["NodeID"])
            if not (description := self._described.get(node_id)):
                continue
            host = make_host(node, description)
            if why := find_obstacle(host, hosts):
                self._note_unusable(node_id, why)
                continue
            # A node that was just lost and came back may be there twice for some seconds. A block
            # that gets the dead one is lost at once, and drawn again.
            self._nodes[host.name] = _RayNode(node_id, count_resources(node))
            hosts[host.name] = host
        return list(hosts.values())

    def list_unusable(self, role: Role | None = None) -> list[str]:
        """Return the address of each node that has a resource of ours and was left out, and why;
        ``role``: those alone that have that of a role, and live.
        """
        of_role = {str(n["NodeID"]) for n in _list_nodes() if n["Alive"] and role in _list_roles(n)}
        return [
            f"{_find_address(node)}: {reason}"
            for node, reason in self._unusable.items()
            if role is None or node in of_role
        ]

    def _ask_descriptions(self, nodes: list[str]) -> None:
        """Ask nodes what they are that were not asked yet, or were silent a while ago."""
        describe, now = ray.remote(ray_node.describe_host), time.monotonic()
        for node in nodes:
            is_due = now >= self._asked_again.get(node, 0.0)
            if node not in self._described and node not in self._awaited and is_due:
                self._awaited[node] = _ask(describe, node), now + _DESCRIBE

    def _take_descriptions(self, seconds: float) -> None:
        """Take what nodes say of themselves, waiting up to so many seconds for all of it."""
        answers = [answer for answer, _ in self._awaited.values()]
        if not answers:
            return
        ready, _ = ray.wait(answers, num_returns=len(answers), timeout=seconds)
        now = time.monotonic()
        for node, (answer, latest) in list(self._awaited.items()):
            if answer not in ready and now < latest:
                continue
            del self._awaited[node]
            try:
                description = read_description(ray.get(answer, timeout=0))
                ray_access.check_node(description.asks_token, os.environ)
                self._described[node] = description
                self._unusable.pop(node, None)
            except RayError as error:
                # It may be busy, or its Ray just starting.
                ray.cancel(answer)
                self._asked_again[node] = now + _ASK_AGAIN
                self._note_unusable(node, readers.reason(error))
            except readers.Unfit as error:
                self._described[node] = None
                self._note_unusable(node, readers.reason(error))

    def _note_unusable(self, node: str, reason: str) -> None:
        if node not in self._unusable:
            self._notice(f"Ray's node {_find_address(node)} cannot be used: {reason}")
        self._unusable[node] = reason

    def examine_hosts(self) -> dict[str, HostExamination | str]:
        """Ask the hosts of :meth:`list_hosts` for their doctor, of what their role needs; by name,
        or why one is silent.
        """
        examine = ray.remote(ray_node.examine_host)
        answers = {
            name: _ask(examine, node.node_id, node.is_for_clients)
            for name, node in self._nodes.items()
        }
        examined: dict[str, HostExamination | str] = {}
        for name, answer in answers.items():
            try:
                findings = readers.document(ray.get(answer, timeout=_EXAMINE))
                ahead = self._ask_clock(self._nodes[name].node_id)
                examined[name] = HostExamination(findings=findings, ahead=ahead)
            except (RayError, readers.Unfit, ValidationError, TypeError) as error:
                examined[name] = readers.reason(error)
        return examined

    def _ask_clock(self, node: str) -> float:
        """Return the seconds by which a node's clock is ahead of ours, from round trips of its own:
        its doctor's answer may have waited for those of others.
        """
        tell_time = ray.remote(ray_node.tell_time)
        readings = []
        for _ in range(_CLOCK_READINGS):
            before = time.time()
            answer = ray.get(_ask(tell_time, node), timeout=_DESCRIBE)
            after = time.time()
            host_time = HostTime.model_validate(readers.document(answer)).time
            readings.append(ClockReading(before, host_time, after))
        return choose_reading(readings).ahead

    def start_block(self, host: Host, request: BlockRequest) -> None:
        """Start the block's process on a node."""
        self._start(host, "server", request.model_dump_json().encode())

    def start_client(self, host: Host, request: ClientRequest) -> None:
        """Start the process for a block's loads on a node."""
        self._start(host, "client", request.model_dump_json().encode())

    def hand_line(self, host: str, line: bytes) -> None:
        """Hand a line to the process on a node; if it is not taken, the process is lost soon."""
        if task := self._tasks.get(host):
            task.renewals.append(task.actor.hand_line.remote(task.handed, line))
            task.handed += 1

    def _start(self, host: Host, role: Role, request: bytes) -> None:
        _list_nodes()  # Failure where the head is gone, which Ray would wait for here
        node = self._nodes[host.name]
        actor = self._actor.options(
            num_cpus=0,
            resources=dict(node.resources),
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=3,
        ).remote(_MODULES[role])
        lines = actor.run_block.options(num_returns="streaming").remote(request)
        now = time.monotonic()
        self._tasks[host.name] = _RayTask(
            node=node.node_id, actor=actor, lines=lines, renewed=now, answered=now
        )

    def poll(self, seconds: float) -> list[Event]:
        """Return losses, and one line at most, so that leases are renewed between any two. Hosts
        take turns: none waits behind another that never stops talking.
        """
        self._renew_leases()
        if not self._tasks:
            time.sleep(seconds)
            return []
        streams = {id(task.lines): host for host, task in self._tasks.items()}
        # A line counts as ready when it is here: to wait for a large one of a host that is cut off
        # would let the leases of all others run out.
        ready, _ = ray.wait(
            [task.lines for task in self._tasks.values()], num_returns=1, timeout=seconds
        )
        events: list[Event] = []
        for host in [streams[id(stream)] for stream in ready]:
            events.append(self._read(host))
            # Of several that are ready, Ray may return the first of the list each time.
            self._tasks[host] = self._tasks.pop(host)
        now = time.monotonic()
        events += [
            self._describe_silence(host, now - task.answered)
            for host, task in self._tasks.items()
            if now - task.answered > _SILENCE
        ]
        return events

    def _describe_silence(self, host: str, seconds: float) -> HostLost:
        """Return the loss of a host that has not answered for so long. Ray waits without end for
        what another driver has of a node.
        """
        if self._tasks[host].has_answered or not self._is_node_alive(host):
            return HostLost(host=host, reason=f"no answer for {seconds:.0f} s", is_alive=False)
        return HostLost(
            host=host,
            reason=f"no process began there in {seconds:.0f} s; another campaign may have it",
            is_alive=True,
        )

    def _read(self, host: str) -> Event:
        try:
            line = ray.get(next(self._tasks[host].lines), timeout=_RENEW_EVERY)
        except StopIteration:
            return HostLost(host=host, reason="its process went without a word", is_alive=True)
        except RayError as error:
            reason = f"{type(error).__name__}: {readers.reason(error)}"[:300]
            return HostLost(host=host, reason=reason, is_alive=self._is_node_alive(host))
        if not isinstance(line, bytes):
            return HostLost(host=host, reason="its answer is no text", is_alive=True)
        return HostLine(host=host, line=line)

    def _is_node_alive(self, host: str) -> bool:
        node = self._tasks[host].node
        return any(n["Alive"] for n in _list_nodes() if n["NodeID"] == node)

    def _renew_leases(self) -> None:
        now = time.monotonic()
        for task in self._tasks.values():
            if task.renewals:
                ready, task.renewals = ray.wait(
                    task.renewals, num_returns=len(task.renewals), timeout=0
                )
                if any(map(_has_succeeded, ready)):
                    task.answered, task.has_answered = now, True
            if now - task.renewed >= _RENEW_EVERY and len(task.renewals) < 20:
                task.renewed = now
                task.renewals.append(task.actor.renew.remote())

    def end_block(self, host: str) -> None:
        """Kill the block's actor: with it the lease ends, and the guardian ends the rest."""
        task = self._tasks.pop(host, None)
        if task is not None:
            with contextlib.suppress(RayError):
                ray.kill(task.actor, no_restart=True)

    def close(self) -> None:
        """Let go of all blocks."""
        for host in list(self._tasks):
            self.end_block(host)


def make_host(node: Mapping[str, Any], description: HostDescription) -> Host:
    """Return a host from what Ray knows of a node and what that says of itself. Pure."""
    address = str(node["NodeManagerAddress"])
    # Both: several nodes may have one name, and a name must not change when one comes.
    own_name = str(description.environment.host)[:_LONGEST_NAME]
    return Host(
        name=f"{own_name} ({address})",
        kernel=description.kernel,
        environment=description.environment,
        address=address,
        roles=_list_roles(node),
    )


def find_obstacle(host: Host, others: Mapping[str, Host]) -> str | None:
    """Return why a host cannot be used beside others, by name; None if it can. Pure."""
    try:
        ipaddress.ip_address(host.address)
    except ValueError:
        return (
            f"Ray knows it as {readers.shown(host.address)}, and servers listen at addresses; "
            "start Ray there with --node-ip-address=ADDRESS"
        )
    other = others.get(host.name)
    if other and other.roles != host.roles:
        return "Ray runs twice at its address; start it once there, with both resources"
    return None


def read_description(text: object) -> HostDescription:
    """Read what a node says of itself. Raises Unfit if it cannot be used. Pure."""
    if not isinstance(text, bytes) or len(text) > _LONGEST_DESCRIPTION:
        raise readers.Unfit("its description is not text, or too long")
    try:
        document = readers.document(text)
        description = HostDescription.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise readers.Unfit(readers.first_complaint(error)) from None
    if description.dballoc != dballoc.__version__:
        raise readers.Unfit(
            f"it has dballoc {description.dballoc}, the driver {dballoc.__version__}"
        )
    return description


def _has_succeeded(answer: Any) -> bool:
    """Whether a call that has ended was answered, and did not fail because its host is away."""
    try:
        ray.get(answer, timeout=0)
    except RayError:
        return False
    return True


def _ask(function: Any, node: str, *arguments: object) -> Any:
    """Have a node call one of our functions; returns Ray's reference to its answer."""
    return function.options(
        num_cpus=0,
        max_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    ).remote(*arguments)


def count_resources(node: Mapping[str, Any]) -> dict[str, int]:
    """Return how much a node has of each resource of ours, which Ray hands out in whole units.
    Pure.
    """
    return {
        name: int(amount)
        for name in RESOURCES.values()
        if (amount := node["Resources"].get(name, 0)) >= 1
    }


def _list_roles(node: Mapping[str, Any]) -> frozenset[Role]:
    resources = count_resources(node)
    return frozenset(role for role, name in RESOURCES.items() if name in resources)


def _list_nodes() -> list[dict[str, Any]]:
    """Return what Ray knows of every node. Raises Failure if its head does not answer."""
    answers: queue.SimpleQueue[list[dict[str, Any]] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(ray.nodes())  # type: ignore[no-untyped-call]
        except (RayError, RuntimeError, OSError) as error:
            answers.put(error)

    # Ray waits for its head longer than we do, and cannot be told not to.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_HEAD_SILENCE)
    except queue.Empty:
        answer = TimeoutError(f"nothing for {_HEAD_SILENCE:.0f} s")
    if isinstance(answer, Exception):
        raise Failure(
            f"--ray: Ray's head does not answer: {readers.reason(answer)}; finished trials are "
            "kept; start Ray again, on all hosts, and run the same command to resume"
        )
    return answer


def _find_address(node: str) -> str:
    """Return the address of a node by its ID; the ID if Ray no longer knows it."""
    addresses = {str(n["NodeID"]): str(n["NodeManagerAddress"]) for n in _list_nodes()}
    return addresses.get(node, node)


def _name_own_address(address: str) -> dict[str, Any]:
    """Return the argument that tells Ray this node's address: the one from which the head is
    reached. Ray guesses by a route to the internet, which closed networks have not. Empty on the
    loopback, which Ray names otherwise.
    """
    host, port = ray_access.find_host(address), int(address.rpartition(":")[2])
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing
            own_address = str(probe.getsockname()[0])
    except OSError:
        return {}
    return {} if ray_access.is_loopback(own_address) else {"_node_ip_address": own_address}
