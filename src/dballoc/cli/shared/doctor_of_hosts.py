"""``doctor --ray``: every host of a Ray cluster, and how they differ."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from dballoc.catalogue import allocators, servers
from dballoc.cli.extras import require_extra
from dballoc.cli.shared.safe_output import clean, print_json, say
from dballoc.doctor.software import PERF, SYSBENCH
from dballoc.ground.errors import Failure

if TYPE_CHECKING:
    from dballoc.campaign.elsewhere.place_blocks import Host
    from dballoc.campaign.elsewhere.ray_executor import HostExamination


def print_hosts(address: str, as_json: bool) -> None:
    """Print what each host's doctor warns of, which nodes cannot be used, and what differs.
    typer.Exit with 1 if something is missing on any, or one cannot be used; UsageError if the
    cluster cannot be joined, Failure if it has no node for us.
    """
    require_extra("hosts", "doctor --ray")
    # Ray takes a second to import, and is not there without the extra.
    from dballoc.campaign.elsewhere import ray_executor

    # The document has the notices on nodes that cannot be used.
    with ray_executor.connect(address, lambda text: None) as executor:
        hosts = executor.list_hosts()
        unusable = executor.list_unusable()
        if not hosts and not unusable:
            raise Failure(
                f"--ray {address}: no node has the resource dballoc_server or dballoc_client; "
                "start nodes with --resources='{\"dballoc_server\": 1}'"
            )
        examined = executor.examine_hosts()
    document = clean(describe_hosts(hosts, examined, unusable))
    if as_json:
        print_json(document)
    else:
        _print_document(document)
    states = {f["state"] for findings in document["hosts"].values() for f in findings}
    if document["no answer"] or document["cannot be used"] or "missing" in states:
        raise typer.Exit(1)


def describe_hosts(
    hosts: Sequence["Host"],
    examined: Mapping[str, "HostExamination | str"],
    unusable: Sequence[str],
) -> dict[str, Any]:
    """Return what ``doctor --ray`` says, as plain data. ``unusable``: sentences on nodes that are
    no hosts, though they should be.
    """
    from dballoc.campaign.elsewhere import compare_hosts

    answers = {name: e for name, e in examined.items() if not isinstance(e, str)}
    return {
        "hosts": {
            name: [f.model_dump() for f in answer.findings if f.state != "ok"]
            for name, answer in answers.items()
        },
        "no answer": {name: e for name, e in examined.items() if isinstance(e, str)},
        "cannot be used": list(unusable),
        "differences": [
            *compare_hosts.list_differences(hosts),
            *compare_hosts.list_other_versions(
                {name: _list_versions(answer) for name, answer in answers.items()}
            ),
            *compare_hosts.list_shared_kernels(hosts),
            *compare_hosts.list_wrong_clocks({n: a.ahead for n, a in answers.items()}),
        ],
    }


def _list_versions(examination: "HostExamination") -> dict[str, str]:
    """Return the version of each program and library that a host's doctor looked for, without its
    place, which may differ.
    """
    titles = {row["title"] for row in (*allocators().values(), *servers().values())}
    return {
        finding.name: finding.text.partition(" (")[0]
        for finding in examination.findings
        if finding.name in titles | {SYSBENCH, PERF}
    }


def _print_document(document: dict[str, Any]) -> None:
    for name, findings in document["hosts"].items():
        shown = [f for f in findings if f["state"] != "note"]
        say(f"{name}: {'ok' if not shown else ''}".rstrip())
        for f in shown:
            say(
                f"  {f['state']}: {f['name']}: {f['text']}"
                + (f"; {f['remedy']}" if f["remedy"] else "")
            )
    for name, reason in document["no answer"].items():
        say(f"{name}: no answer: {reason}")
    for sentence in document["cannot be used"]:
        say(f"cannot be used: {sentence}")
    if document["hosts"]:
        for sentence in document["differences"] or ["the hosts are alike"]:
            say(sentence)
