"""An emulated aarch64 machine is booted where this is asked for alone: it takes minutes of all
CPUs (``make test-aarch64``).
"""

import os

collect_ignore_glob = [] if os.environ.get("DBALLOC_TEST_MACHINE") == "aarch64" else ["test_*.py"]
