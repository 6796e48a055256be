"""What several benchmarks begin with: a campaign of a table that they make."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import tomli_w

from dballoc.analysis.campaign_tables import Campaign, load_campaign


def run(out: Path, table: dict[str, Any], *flags: str) -> Campaign:
    """Run or resume it in ``out`` with the command that users have, and their ``flags``; its
    experiment file lies beside.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.with_name(f"{out.name}.toml")
    path.write_text(tomli_w.dumps(table))
    program = [sys.executable, "-m", "dballoc", "bench"]
    subprocess.run([*program, path, "--out", out, *flags], check=True, stdout=subprocess.DEVNULL)
    return load_campaign(out)
