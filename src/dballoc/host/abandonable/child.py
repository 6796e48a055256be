"""The child's side: let go of all that it does not need, then do the work whenever it is asked."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable, Collection
from enum import IntEnum
from typing import Any, NoReturn

from dballoc.host.abandonable import touches
from dballoc.host.abandonable.answers import pack_answer, pack_error, unpack_answer
from dballoc.host.abandonable.look_limits import LookLimits
from dballoc.host.abandonable.touches import Skips, TouchRecord
from dballoc.host.process.handle import open_pidfds
from dballoc.host.unprivileged.sandbox import ELF_PARSER

# A request: the seconds that it has, and the length of what follows. An answer: its kind, the CPU
# seconds that the child has taken in all, and the length of what follows.
REQUEST, HEAD = struct.Struct("<dQ"), struct.Struct("<BdQ")


class MessageKind(IntEnum):
    """What a message of the child's is: what the work returned, what it raised, or words for the
    user before that.
    """

    VALUE, ERROR, WORDS = 0, 1, 2


_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_libc = ctypes.CDLL(None, use_errno=True)

_tell: Callable[[str], None] | None = None  # how this process tells its parent, as a child


def serve_parent(
    talk: socket.socket,
    record: TouchRecord,
    skips: Skips,
    limits: LookLimits,
    work: Callable[[Any], Any],
    read_cpu: Callable[[], float],
    *,
    kept: Collection[int],
) -> NoReturn:
    """Be the child until the other end closes. ``read_cpu``: seconds that this process and its
    children have taken; ``kept``: descriptors that the work needs.
    """
    global _tell
    try:
        _end_with_parent()
        ELF_PARSER.forget_child()
        _close_descriptors({talk.fileno(), *ELF_PARSER.descriptors, *open_pidfds, *kept})
        _limit_memory(limits.memory)
        touches.become_child(record, skips, limits.patience)
        cpu_before = read_cpu()

        def send(kind: MessageKind, data: bytes) -> None:
            talk.sendall(HEAD.pack(kind, read_cpu() - cpu_before, len(data)) + data)

        _tell = lambda words: send(MessageKind.WORDS, pack_answer(words))  # noqa: E731
        while len(head := talk.recv(REQUEST.size, socket.MSG_WAITALL)) == REQUEST.size:
            seconds, length = REQUEST.unpack(head)
            request = unpack_answer(talk.recv(length, socket.MSG_WAITALL))
            _limit_cpu(limits.cpu)
            touches.begin_look(seconds)
            kind, data = _do_work(work, request)
            touches.end_touch()
            send(kind, data)
    finally:
        os._exit(0)


def tell_parent(words: str) -> None:
    """Have the parent say this to the user, before the work is done."""
    if _tell:
        _tell(words)


def _do_work(work: Callable[[Any], Any], request: Any) -> tuple[MessageKind, bytes]:
    try:
        return MessageKind.VALUE, pack_answer(work(request))
    except BaseException as error:
        return MessageKind.ERROR, pack_error(error)


def _end_with_parent() -> None:
    """Be killed when the parent ends. Signals of its terminal are for the parent alone."""
    parent = os.getppid()
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _close_descriptors(kept: Collection[int]) -> None:
    """Close all but those. Whoever reads our output, or waits for our socket, must not wait for a
    child that is stuck.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))


def _limit_memory(most: int) -> None:
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[0])
    _lower_limit(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + most)
    _lower_limit(resource.RLIMIT_CORE, 0)


def _limit_cpu(seconds: int) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _lower_limit(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + seconds)


def _lower_limit(kind: int, most: int) -> None:
    """Set a soft limit, which the parser that the child starts may replace by its own."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
