"""List the experiments that come with dballoc, what each lacks on this machine, and how those that
repeat a post differ from it.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dballoc import catalogue
from dballoc.allocators import find_library as find_allocator
from dballoc.campaign.preparation.prepare_variant import count_most_clients
from dballoc.experiment import experiment_file
from dballoc.experiment.model import BUILTIN, Experiment, Server, Variant
from dballoc.experiment.post import Post
from dballoc.fetch import private_store
from dballoc.fetch.name_and_version import split_reference
from dballoc.fetch.stand_ins import use_originals
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus
from dballoc.load import hammerdb_command, sysbench_command
from dballoc.load import workload as find_workload
from dballoc.load.post_like import fill_post
from dballoc.load.workload import Workload
from dballoc.load.workload_cycles import expand
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.run_setup import PostComparison, RunSetup, WorkloadSetup
from dballoc.servers import build as find_build
from dballoc.servers.families import Family, describe_family
from dballoc.servers.private import command_line


def plan_setup(experiment: Experiment) -> RunSetup:
    """Return how an experiment runs: references for versions that are only known once they are
    found. Raises UsageError for a workload or server that there is not.
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


@dataclass(frozen=True)
class ShippedExperiment:
    """An experiment that comes with dballoc. ``lacking``: allocators and servers that it needs and
    that are not on this machine.
    """

    name: str
    title: str
    experiment: Experiment
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class RepeatedPost:
    """What the post that an experiment repeats states of its set-up, and what the run does.
    ``no_stand_in``: what of it nothing stands for, and why.
    """

    name: str
    post: Post
    comparisons: tuple[PostComparison, ...]
    no_stand_in: Mapping[str, str]


def list_experiments() -> list[ShippedExperiment]:
    """List every experiment that comes with dballoc."""
    return [_read_experiment(name, text) for name, text in catalogue.experiments().items()]


def list_repeated_posts() -> list[RepeatedPost]:
    """List the shipped experiments that repeat a post. Nothing is looked for on this machine."""
    posts = []
    for name, text in catalogue.experiments().items():
        experiment = _build_experiment(name, text)
        if experiment.post is not None:
            comparisons = compare_with_post(experiment.post, plan_setup(experiment))
            posts.append(
                RepeatedPost(name, experiment.post, tuple(comparisons), experiment.no_stand_in)
            )
    return posts


def _read_experiment(name: str, text: str) -> ShippedExperiment:
    experiment = _build_experiment(name, text)
    allocators = [v.allocator for v in experiment.variant if v.allocator not in (None, BUILTIN)]
    builds = [s.use for s in map(experiment.server_of, experiment.variant) if s.basedir is None]
    lacking = [
        word for word in allocators if word and not _is_found(find_allocator.find_allocator, word)
    ]
    lacking += [word for word in builds if not _is_found(lambda w: find_build.find(w, None), word)]
    lacking = list(dict.fromkeys(lacking))
    return ShippedExperiment(name, _read_title(text), experiment, tuple(lacking))


def _build_experiment(name: str, text: str) -> Experiment:
    where = f"experiment {name}"
    table = expand(fill_post(tomllib.loads(text), where))
    experiment = experiment_file.build_experiment(table, where, len(cpus.list_available_cpus()))
    return use_originals(experiment, private_store.list_references(), None)


def _is_found(find: Callable[[str], object], word: str) -> bool:
    try:
        find(word)
    except UsageError:
        return False
    return True


def _read_title(text: str) -> str:
    """Read the first sentence of the comment at the top of an experiment file."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    sentence, stop, _ = " ".join(lines).partition(". ")
    return sentence + stop.strip()
