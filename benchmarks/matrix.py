"""Which allocator runs under which server here: each is started, proved in use, asked one query,
and stopped.

    python benchmarks/matrix.py [--json FILE] [SERVER[:ENGINE]…]

Without servers: every one that is here or was fetched, and MyRocks where a server has it.
Allocators: every one that is here or was fetched (`dballoc fetch`). As many servers at a time as
there are CPUs. Prints a Markdown table; the exit status is 1 if not one combination runs.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Proof = dict[str, Any]


def dballoc(*words: str) -> list[dict[str, Any]]:
    """The JSON that a verb prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "dballoc", *words, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
    return found


def servers() -> list[tuple[str, str]]:
    """(name, engine) of what is here. A name without version is this machine's, so its
    ``NAME@VERSION`` is left out.
    """
    rows = [row for row in dballoc("list", "servers") if row["here"]]
    own = {path for row in rows if "@" not in row["name"] for path in row["here"]}
    rows = [row for row in rows if "@" not in row["name"] or not own.issuperset(row["here"])]
    return [
        (row["name"], engine)
        for engine in ("innodb", "rocksdb")
        for row in rows
        if engine in row["engines"]
    ]


def allocators() -> list[str]:
    """Their names, each file once."""
    rows = [row for row in dballoc("list", "allocators") if row["here"] is not None]
    own = {tuple(row["here"]) for row in rows if "@" not in row["name"]}
    return [
        "builtin",
        *(row["name"] for row in rows if "@" not in row["name"] or tuple(row["here"]) not in own),
    ]


def prove(server: str, engine: str, names: list[str]) -> list[Proof]:
    """One server under all allocators, one after the other."""
    print(f"{server} {engine} …", file=sys.stderr, flush=True)
    rows = dballoc("list", "allocators", *names, "--prove", "--server", server, "--engine", engine)
    return [{**row, "server": server, "engine": engine} for row in rows]


def table(proofs: list[Proof]) -> str:
    """Allocators down, servers across."""
    columns = list(dict.fromkeys(f"{p['server']} {p['engine']}" for p in proofs))
    lines = [
        "| allocator | version | " + " | ".join(columns) + " |",
        "| --- | --- |" + " --- |" * len(columns),
    ]
    notes: list[str] = []
    for name in dict.fromkeys(p["name"] for p in proofs):
        mine = {f"{p['server']} {p['engine']}": p for p in proofs if p["name"] == name}
        version = next((p["version"] for p in mine.values() if p["proved"]), "")
        lines.append(
            f"| {name} | {version} | "
            + " | ".join(_cell(mine.get(c), notes) for c in columns)
            + " |"
        )
    return "\n".join([*lines, "", *(f"{i}. {note}" for i, note in enumerate(notes, 1))])


def _cell(proof: Proof | None, notes: list[str]) -> str:
    if proof is None:
        return ""
    if proof["proved"]:
        on = proof["proof"].partition(", on ")[2]
        return f"yes ({on})" if on else "yes"
    if proof["proof"] not in notes:
        notes.append(proof["proof"])
    return f"no [{notes.index(proof['proof']) + 1}]"


def main() -> int:
    """Prove and print."""
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    out = Path(words[1]) if words[:1] == ["--json"] else None
    words = words[2:] if out else words
    asked = [(word.partition(":")[0], word.partition(":")[2] or "innodb") for word in words]
    names = allocators()
    proofs: list[Proof] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda one: prove(one[0], one[1], names), asked or servers()):
            proofs += found
    print(table(proofs))
    if out:
        out.write_text(json.dumps(proofs, indent=1))
    return 0 if any(p["proved"] for p in proofs) else 1


if __name__ == "__main__":
    sys.exit(main())
