"""What explain says of processes that end, are no servers, or run on a glibc that it does not know:
one line each.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dballoc.explain import explanation
from dballoc.explain.checklist.memory_events import EventFilter
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.ground.errors import Failure
from dballoc.host.process.handle import Process
from dballoc.process import snapshot
from dballoc.process.heaps import glibc_heap
from dballoc.process.mapping_kind import MappingKind
from dballoc.servers.running.credentials import Credentials

WAITS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int i = 0; i < 1000; i++) { char *p = malloc(1000); memset(p, 1, 1000); }
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
"""


def take_snapshot(pid: int) -> snapshot.ProcessSnapshot:
    return snapshot.take_process_snapshot(Process.open(pid))


@pytest.fixture
def program(running_program: Callable[..., int]) -> int:
    return running_program("waits", WAITS)


def killed_before(pid: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.001)
        return function(*arguments, **named)

    return wrapped


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("identify_malloc", "identify_malloc_in_use"),
        ("smaps", "read_mappings"),
        ("process_snapshot", "read_stack_pointers"),
        ("glibc_heap", "walk_heap"),
    ],
)
def test_one_that_ends_while_it_is_looked_at(
    program: int, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    where = getattr(snapshot, module, snapshot)
    monkeypatch.setattr(where, name, killed_before(program, getattr(where, name)))
    with pytest.raises(Failure, match=rf"^process {program}(: .*| has )end") as caught:
        explanation.explain(Process.open(program), None, procedure=EventFilter())
    assert "\n" not in str(caught.value)


def test_one_that_ends_before_it_is_asked(program: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at it is good; the note says why it was not asked."""
    monkeypatch.setattr(
        explanation.running_server, "look", killed_before(program, explanation.running_server.look)
    )
    found = explanation.explain(Process.open(program), Credentials(user="root"))
    assert found.ledger.rss > 0
    [note] = [note for note in found.ledger.notes if "not queried by SQL" in note]
    assert "\n" not in note


def test_no_server_is_explained_from_outside(program: int) -> None:
    found = explanation.explain(
        Process.open(program), Credentials(user="root"), procedure=EventFilter()
    )
    assert found.ledger.tiers == ["outside"]
    assert any("is not a MySQL-family server" in note for note in found.ledger.notes)
    [server] = [part for part in found.sections if part.missing]
    assert "is not a MySQL-family server" in str(server.missing)
    assert found.bounds is None


def test_a_glibc_of_an_unknown_layout(program: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known = build_ledger(take_snapshot(program))
    monkeypatch.setattr(glibc_heap, "LAYOUTS", ())
    found = build_ledger(take_snapshot(program))
    assert found.notes == [
        "glibc's heap was not read (no arena of a known layout): all of it is one line"
    ]
    assert sum(line.resident for line in found.lines) + found.rest == found.rss
    [heap] = [line for line in found.lines if line.owner == MappingKind.MALLOC]
    assert heap.resident >= 1000 * 1000
    assert found.rest <= known.rest


LAZY = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    void *volatile small = malloc(100);
    if (!small) return 1;
    char *p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 8 << 20);
    if (madvise(p, 6 << 20, MADV_FREE)) return 1;
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
"""


def test_what_the_program_has_given_back_lazily(running_program: Callable[..., int]) -> None:
    found = build_ledger(take_snapshot(running_program("lazy", LAZY)))
    lines = {line.owner: line.resident for line in found.lines}
    # The kernel may have taken some of it already, and batches what it counts.
    assert 5 << 20 <= lines["lazily freed"] <= 6 << 20
    assert lines["mapped by the server itself"] <= 3 << 20
    assert sum(lines.values()) + found.rest == found.rss


READ = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(void) {
    void *volatile small = malloc(100);
    volatile char *p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (madvise((void *)p, 8 << 20, MADV_NOHUGEPAGE)) return 1;
    int sum = small == NULL;
    for (int i = 0; i < 4 << 20; i += 4096) p[i] = 1;
    for (int i = 4 << 20; i < 8 << 20; i += 4096) sum += p[i];
    printf("ready\\n");
    fflush(stdout);
    return sum + (getchar() == 0);
}
"""


def test_memory_that_was_read_and_never_written_is_not_resident(
    running_program: Callable[..., int],
) -> None:
    """The kernel has its one page of zeros there, which it does not count."""
    if os.geteuid() != 0:
        pytest.skip("needs root: only it may see the frames of pages")
    found = build_ledger(take_snapshot(running_program("read", READ)))
    [own] = [line for line in found.lines if line.owner == "mapped by the server itself"]
    assert (own.resident, own.size) == (4 << 20, 8 << 20)
    assert abs(found.rest) <= 0.02 * found.rss
