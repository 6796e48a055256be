"""An emulated machine is booted where it is asked for by name alone: it takes minutes of all CPUs
(``make test-aarch64``, ``make test-many-cpus``).
"""

import os

MACHINES = ("aarch64", "many-cpus")
collect_ignore_glob = [
    f"test_{name.replace('-', '_')}*.py"
    for name in MACHINES
    if os.environ.get("DBALLOC_TEST_MACHINE") != name
]
