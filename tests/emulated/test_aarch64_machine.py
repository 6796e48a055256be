"""dballoc on a whole emulated aarch64: a kernel of Debian's, a real MariaDB under the heap probe and
then on other mallocs, and what explain, verify and profile see of it from outside. With
DBALLOC_TEST_WHEEL the wheel is tested; without it this checkout, with what was cross-built for it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from aarch64_image import make_image
from boot_machine import APPEND, boot_machine
from machine_image import CHECKOUT, get_packages

# Of 64 KiB Debian has no kernel.
KERNELS = {"linux-image-arm64": 4096, "linux-image-arm64-16k": 16384}
BUILT = CHECKOUT / "build" / "aarch64"
# Seconds until the machine must have switched itself off. It takes four minutes on two CPUs that
# have nothing else to do.
LONGEST = 1800

pytestmark = pytest.mark.timeout(LONGEST + 300)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packages = get_packages("arm64", "server", BUILT / "machine")
    wheel = os.environ.get("DBALLOC_TEST_WHEEL")
    built = Path(wheel) if wheel else BUILT / "meson/native"
    return make_image(packages, built, tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module", params=KERNELS)
def results(
    request: pytest.FixtureRequest, image: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What the machine with that kernel has put on its console, by name."""
    kernel = get_packages("arm64", f"kernel={request.param}", BUILT / request.param, "trixie")
    [vmlinuz] = (kernel / "boot").glob("vmlinuz-*")
    command = [
        "qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on,sve=off",
        "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048", "-kernel", vmlinuz,
        "-initrd", image, "-append", f"console=ttyAMA0 {APPEND}",
    ]  # fmt: skip
    console = tmp_path_factory.mktemp("console") / "console"
    found = parse_results(boot_machine(command, console, memory=4 << 30, longest=LONGEST))
    assert found["page_size"] == KERNELS[request.param]
    return found


def parse_results(text: str) -> dict[str, Any]:
    """Parse the lines ``result NAME JSON`` of a console."""
    words = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("result ")]
    return {name: json.loads(value) for _, name, value in words}


def test_explain_accounts_for_its_memory(results: dict[str, Any]) -> None:
    document = results["explain"]
    print(f"rest {document['rest']} of {document['rss']} bytes, unowned {document['unowned']}")
    assert document["rss"] > 50 << 20
    assert abs(document["rest"]) <= 0.01 * document["rss"]


@pytest.mark.parametrize("malloc", ["jemalloc", "tcmalloc", "mimalloc"])
def test_explain_accounts_for_other_mallocs(results: dict[str, Any], malloc: str) -> None:
    document = results[f"explain-{malloc}"]
    owners = {line["owner"]: line["resident"] for line in document["lines"]}
    print(f"{malloc}: rest {document['rest']} of {document['rss']} bytes, {owners}")
    assert abs(document["rest"]) <= 0.01 * document["rss"]
    [said] = [line for line in results[f"verify-{malloc}"].splitlines() if " uses " in line]
    assert malloc in said


def test_its_heap_has_callers(results: dict[str, Any]) -> None:
    print(results["heap"])
    assert "mariadbd" in results["heap"]


def test_its_stacks_reach_a_threads_start(results: dict[str, Any]) -> None:
    print(f"{results['complete']:.2%} of {results['samples']} stacks")
    assert results["samples"] > 200
    assert results["complete"] >= 0.99


@pytest.mark.parametrize("malloc", ["", "jemalloc", "tcmalloc", "mimalloc"])
def test_the_probe_stands_a_storm_of_forks(results: dict[str, Any], malloc: str) -> None:
    """In qemu-user a lock of its own may stay locked in forked children."""
    assert results[f"storm-{malloc}"] == [0, "", ""]


def test_where_nothing_is_sampled_no_block_is_looked_up(results: dict[str, Any]) -> None:
    assert results["counters"][0] == 0


def test_its_malloc_is_known(results: dict[str, Any]) -> None:
    assert "uses glibc malloc" in results["verify"]


def test_its_waits_are_seen(results: dict[str, Any]) -> None:
    assert "futex" in results["waits"] or "lock" in results["waits"]


def test_the_shim_swallows_the_switch(results: dict[str, Any]) -> None:
    """qemu-user cannot tell: see tests/native/emulation.py."""
    without, beneath = results["thp"].values()
    assert (without, beneath) == ([0, 1], [0, 0])


def test_the_server_ends_as_it_should(results: dict[str, Any]) -> None:
    assert results["end"] == 0
