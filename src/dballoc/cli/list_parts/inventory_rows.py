"""The rows of ``dballoc list``, as its JSON has them."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dballoc.cli.list_parts.catalogue_part import Part
from dballoc.doctor import inventory
from dballoc.doctor.inventory import InventoryItem, ShippedWorkload
from dballoc.experiment.model import BUILTIN
from dballoc.ground.errors import UsageError

if TYPE_CHECKING:
    from dballoc.doctor.shipped_experiments import RepeatedPost, ShippedExperiment

Row = dict[str, Any]

# Not in the catalogue: each server has its own.
_BUILTIN: Row = {
    "name": BUILTIN,
    "what": "what the server was built with",
    "version": "",
    "here": [],
    "remedy": None,
    "settings": "",
    "note": "",
}


def list_rows(part: Part, names: list[str], post: bool) -> Sequence[Row]:
    """Return a row for each entry of a part, for each setting of the allocators ``names``, with
    what an experiment's post states if ``post``. Raises UsageError if an allocator has no settings.
    """
    match part:
        case "allocators":
            items = [*inventory.list_allocators(), *inventory.list_fetchable("allocator")]
            more = {"settings": "settings", "note": "note"}
            return [_BUILTIN, *(_item(item, more) for item in items)]
        case "servers":
            items = [*inventory.list_servers(), *inventory.list_fetchable("server")]
            return [_item(item, {"engines": "engines"}) for item in items]
        case "workloads":
            return [_workload(workload) for workload in inventory.list_workloads()]
        case "experiments":
            # Imported here: reading experiments takes longer than all the rest.
            from dballoc.doctor import shipped_experiments

            if post:
                return [_repeated_post(each) for each in shipped_experiments.list_repeated_posts()]
            return [_experiment(shipped) for shipped in shipped_experiments.list_experiments()]
        case "settings":
            every: list[str | None] = [*names] or [None]
            rows = [
                _setting(setting) for name in every for setting in inventory.list_settings(name)
            ]
            if not rows:
                raise UsageError(f"{', '.join(names)}: it has no settings")
            return rows


def choose_rows(part: str, rows: Sequence[Row], names: list[str], post: bool) -> Sequence[Row]:
    """Return the rows of these names, in their order. Raises UsageError for a name that has no
    row.
    """
    kind, flag = (f"{part} that repeat a post", " --post") if post else (part, "")
    by_name = {row["name"]: row for row in rows}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"no {unknown[0]!r} among the {kind}; dballoc list {part}{flag} lists them"
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _item(item: InventoryItem, more: dict[str, str]) -> Row:
    return {
        "name": item.name,
        "what": item.title,
        "version": item.version,
        "here": [str(path) for path in item.paths] if item.version else None,
        "remedy": None if item.version else item.remedy,
        **{heading: item.more[key] for heading, key in more.items()},
    }


def _setting(setting: inventory.AllocatorSetting) -> Row:
    """Return a row by its fields' names, except for the key that scripts know as ``here``."""
    fields = dataclasses.asdict(setting)
    return {"here" if key == "available" else key: value for key, value in fields.items()}


def _workload(workload: ShippedWorkload) -> Row:
    return {
        "name": workload.name,
        "what": workload.title,
        "writes": workload.writes,
        "here": workload.script,
        "remedy": None if workload.script else "apt-get install sysbench",
    }


def _experiment(shipped: "ShippedExperiment") -> Row:
    experiment = shipped.experiment
    return {
        "name": shipped.name,
        "what": shipped.title,
        "variants": [variant.name for variant in experiment.variant],
        "workloads": experiment.workloads,
        "threads": experiment.threads,
        "lacking": list(shipped.lacking),
    }


def _repeated_post(repeated: "RepeatedPost") -> Row:
    post = repeated.post
    return {
        "name": repeated.name,
        "source": post.source,
        "machine": post.machine,
        "post": [dataclasses.asdict(compared) for compared in repeated.comparisons],
        "reasons": dict(post.reasons),
        "no_stand_in": dict(repeated.no_stand_in),
        "notes": [
            {
                "item": item,
                "post": words,
                "paragraph": post.find_paragraph(("notes", item)),
            }
            for item, words in post.notes.items()
        ],
    }
