"""List the experiments that come with dballoc, what each lacks on this machine, and how those that
repeat a post differ from it.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dballoc import catalogue
from dballoc.allocators import find_library as find_allocator
from dballoc.analysis.published.setup.post_comparison import PostComparison
from dballoc.analysis.published.setup.post_differences import compare_with_post
from dballoc.doctor.planned_setup import plan_setup
from dballoc.errors import UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import BUILTIN, Experiment
from dballoc.experiment.post import Post
from dballoc.host.resources import cpus
from dballoc.load.post_like import fill_post
from dballoc.load.workload_cycles import expand
from dballoc.servers import build as find_build


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
    return experiment_file.build_experiment(table, where, len(cpus.list_available_cpus()))


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
