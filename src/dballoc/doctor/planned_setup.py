"""How an experiment would run by its file and the catalogue alone: what its set-up is compared with
a post's by before anything ran. Nothing is looked for on this machine.
"""

from dballoc import catalogue
from dballoc.analysis.published.setup.run_setup import RunSetup, WorkloadSetup
from dballoc.campaign.preparation.prepare_variant import count_most_clients
from dballoc.experiment.model import BUILTIN, Experiment, Server, Variant
from dballoc.fetch.name_and_version import split_reference
from dballoc.load import hammerdb_command, sysbench_command
from dballoc.load import workload as find_workload
from dballoc.load.workload import Workload
from dballoc.servers.families import Family, describe_family
from dballoc.servers.private import command_line


def plan_setup(experiment: Experiment) -> RunSetup:
    """Return how an experiment runs: references for versions that are only known once they are
    found. UsageError for a workload or server that there is not.
    """
    workloads = find_workload.settle(experiment)
    return RunSetup(
        experiment=experiment,
        allocators={v.name: _name_allocator(v) for v in experiment.variant},
        servers={v.name: _name_server(experiment.server_of(v)) for v in experiment.variant},
        added_options=_list_added_options(experiment, list(workloads.values())),
        defaults=_find_family(experiment).defaults,
        workloads={name: _describe_workload(w, experiment) for name, w in workloads.items()},
        blocks=experiment.blocks,
        may_settle_otherwise=_list_open_settling(experiment),
    )


def _list_open_settling(experiment: Experiment) -> dict[str, tuple[str, str]]:
    """Return of the variables by which the servers settle, and which not every server has, which
    servers do not have them, and what is set instead or "". Which of both it is, only a server
    that runs can tell.
    """
    variables: dict[str, tuple[str, str]] = {}
    if not experiment.settles:
        return variables
    for engine in {experiment.server_of(variant).engine: None for variant in experiment.variant}:
        entry = catalogue.settling().get(engine, {})
        with_substitutes = [s for s in entry.get("switch", []) if isinstance(s, list)]
        substitutes = {first: " or ".join(others) for first, *others in with_substitutes}
        for name, servers in entry.get("lacking", {}).items():
            variables[name] = (servers, substitutes.get(name, ""))
    return variables


def _name_allocator(variant: Variant) -> str:
    if variant.allocator:
        return variant.allocator.replace("@", " ")
    return " and ".join(path.rpartition("/")[2] for path in variant.preload) or BUILTIN


def _name_server(server: Server) -> str:
    if server.basedir:
        return f"the build in {server.basedir}"
    family, version = split_reference(server.use)
    title = describe_family(family, version).called
    return f"{title} {version}" if version else title


def _find_family(experiment: Experiment) -> Family:
    """Return what the catalogue knows of the baseline's server."""
    server = experiment.server_of(experiment.find(experiment.baseline))
    return describe_family(*split_reference(server.use))


def _list_added_options(experiment: Experiment, workloads: list[Workload]) -> dict[str, str]:
    """Return the options that the baseline's server is given beside the experiment's own."""
    server = experiment.server_of(experiment.find(experiment.baseline))
    family = _find_family(experiment)
    clients, tables = count_most_clients(experiment), experiment.data.tables
    statements = max(
        sysbench_command.statements(w, clients, tables, experiment.load) for w in workloads
    )
    return {
        **family.options,
        **family.engines.get(server.engine, {}),
        **command_line.capacity(clients, statements, tables),
    }


def _describe_workload(workload: Workload, experiment: Experiment) -> WorkloadSetup:
    return WorkloadSetup(
        title=workload.title,
        script=workload.script,
        options={**workload.options, **experiment.load.options},
        prepared=workload.prepares(experiment.load),
        brings=workload.brings,
        driver=_name_driver(workload),
    )


def _name_driver(workload: Workload) -> str:
    """Return what drives a workload: of one that HammerDB could drive, what its options say."""
    if hammerdb_command.is_left_to_sysbench(workload):
        return "sysbench (this host's)"
    is_asked = workload.options.get(hammerdb_command.OPTION) == "hammerdb"
    return "HammerDB" if is_asked else "HammerDB where it is installed, else sysbench"
