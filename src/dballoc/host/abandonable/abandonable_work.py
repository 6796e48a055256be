"""The parent's side: have work done by a child, and wait for it no longer than it may take."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from dballoc.ground.errors import Failure
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.answers import pack_answer, unpack_answer
from dballoc.host.abandonable.child import HEAD, REQUEST, MessageKind, serve_parent
from dballoc.host.abandonable.look_limits import LookLimits, look_limits
from dballoc.host.abandonable.touches import Skips, Touch, TouchRecord
from dballoc.host.unprivileged.sandbox import ELF_PARSER

Request = TypeVar("Request")
Result = TypeVar("Result")

# Children that wait for different things: from the last one on nothing is touched that may block.
_MOST_RESTARTS = 3
_MOST_STUCK = 4
_MOST_ANSWER = 256 << 20  # bytes
# A child that is not stuck is gone by then; one that is, is left to itself.
_SECONDS_TO_END = 0.2
_SECONDS_TO_RETRY = 60.0  # until what did not answer is asked again

_cpu_seconds = 0.0  # of all children's looks


def read_cpu_seconds() -> float:
    """Read the CPU seconds that this process has taken, with the children that look and the child
    that parses files for it.
    """
    return time.process_time() + ELF_PARSER.cpu_seconds + _cpu_seconds


@dataclass(kw_only=True)
class _AbandonableChild:
    """A running child. ``began``: of the monotonic clock; ``cpu``: seconds that it has told."""

    pid: int
    talk: socket.socket
    record: TouchRecord
    skips: Skips
    began: float
    cpu: float = 0.0


@dataclass(frozen=True)
class _ChildAnswer:
    kind: MessageKind
    data: bytes


class AbandonableWork(Generic[Request, Result]):
    """Work that a child does, on plain values and dataclasses of ours, one child while it answers.
    ``subject``: what the work looks at, for messages; ``announce``: is given the words of
    :func:`dballoc.host.abandonable.child.tell_parent`; ``kept``: open descriptors that the work
    needs. No other thread may run when a child is started: by :meth:`start`, or by :meth:`run`.
    """

    def __init__(
        self,
        work: Callable[[Request], Result],
        limits: LookLimits,
        subject: str,
        announce: Callable[[str], None] = lambda _: None,
        *,
        kept: Collection[int] = (),
    ) -> None:
        self._work, self._limits, self._subject = work, limits, subject
        self._announce, self._kept = announce, kept
        self._child: _AbandonableChild | None = None
        self._stuck: dict[int, Touch | None] = {}

    def start(self) -> None:
        """Start the child now, before the first :meth:`run`. Raises OSError if there can be
        none.
        """
        self._child = self._child or self._fork(Skips())

    def run(self, request: Request) -> Result:
        """Return what the work returns, or raise what it raises. Raises Failure if it takes longer
        than the limits allow, or the child ends without an answer.
        """
        deadline = time.monotonic() + self._limits.seconds
        data = pack_answer(request)
        if self._child and _read_end(self._child.pid) is not None:
            self.close()
        skips = self._choose_skips()
        touch: Touch | None = None
        for restarts in range(_MOST_RESTARTS + 1):
            self._refuse_more()
            if restarts == _MOST_RESTARTS:
                skips = replace(skips, everything=True)
            child = self._child = self._child or self._fork(skips)
            try:
                outcome = self._exchange(child, data, deadline)
            except BaseException:
                self.close()
                raise
            if isinstance(outcome, _ChildAnswer):
                return self._open_answer(outcome)
            touch = outcome
            self._give_up(child, touch)
            if touch is None or time.monotonic() >= deadline:
                break
            skips = skips.add(touch)
        last = f"; the last thing that it waited for is {touch.describe()}" if touch else ""
        raise Failure(f"{self._subject} did not answer within {self._limits.seconds:g} s{last}")

    def close(self) -> None:
        """End the child."""
        if self._child:
            self._give_up(self._child, None)

    def _choose_skips(self) -> Skips:
        """Return what the next child leaves out: what the last one did, for a while, and then what
        others are still stuck in.
        """
        self._stuck = {pid: touch for pid, touch in self._stuck.items() if _read_end(pid) is None}
        child = self._child
        if child and (not child.skips or time.monotonic() < child.began + _SECONDS_TO_RETRY):
            return child.skips
        self.close()
        skips = Skips()
        for touch in filter(None, self._stuck.values()):
            skips = skips.add(touch)
        return skips

    def _refuse_more(self) -> None:
        """Raises Failure if so many children are stuck that no other is started."""
        if not self._child and len(self._stuck) >= _MOST_STUCK:
            raise Failure(
                f"{self._subject}: {len(self._stuck)} earlier looks at it still wait for what does "
                "not answer, so no other is begun"
            )

    def _fork(self, skips: Skips) -> _AbandonableChild:
        record = TouchRecord(self._limits.patience)
        our_end, child_end = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            serve_parent(
                child_end,
                record,
                skips,
                self._limits,
                self._work,
                read_cpu_seconds,
                kept=self._kept,
            )
        child_end.close()
        return _AbandonableChild(
            pid=pid, talk=our_end, record=record, skips=skips, began=time.monotonic()
        )

    def kill_child(self) -> None:
        """End the child while another thread waits for its answer: that thread gets a Failure."""
        if child := self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)

    def _exchange(
        self, child: _AbandonableChild, request: bytes, deadline: float
    ) -> _ChildAnswer | Touch | None:
        """Ask the child and return its answer; or what it has touched for too long; None if the
        time is over without that. Raises Failure if the child ends.
        """
        global _cpu_seconds
        try:
            seconds = deadline - time.monotonic()
            child.talk.sendall(REQUEST.pack(seconds, len(request)) + request)
            while True:
                head = self._receive(child, HEAD.size, deadline)
                if not isinstance(head, bytes):
                    return head
                kind, cpu, length = HEAD.unpack(head)
                if length > _MOST_ANSWER:
                    raise Failure(f"{self._subject}: there is more to tell than dballoc reads")
                data = self._receive(child, length, deadline)
                if not isinstance(data, bytes):
                    return data
                _cpu_seconds += cpu - child.cpu
                child.cpu = cpu
                if kind != MessageKind.WORDS:
                    return _ChildAnswer(MessageKind(kind), data)
                self._announce(str(unpack_answer(data)))
        except (ConnectionError, EOFError):
            raise Failure(f"{self._subject}: {_describe_end(_wait_for_end(child.pid))}") from None

    def _receive(
        self, child: _AbandonableChild, count: int, deadline: float
    ) -> bytes | Touch | None:
        """Receive so many bytes. Raises EOFError if the child ends; else as :meth:`_exchange`."""
        received = bytearray()
        poll = select.poll()
        poll.register(child.talk, select.POLLIN)
        while len(received) < count:
            remaining = min(deadline - time.monotonic(), self._limits.patience / 8)
            if poll.poll(max(0.0, 1000 * remaining)):
                piece = child.talk.recv(min(count - len(received), 1 << 20))
                if not piece:
                    raise EOFError
                received += piece
                continue
            now, touch = time.monotonic(), child.record.read()
            if touch and (now >= touch.since + touch.patience or now >= deadline):
                return touch
            if now >= deadline:
                return None
        return bytes(received)

    def _open_answer(self, answer: _ChildAnswer) -> Result:
        try:
            value = unpack_answer(answer.data)
        except Exception as error:
            self.close()
            raise Failure(f"{self._subject}: its reader's answer is damaged: {error}") from None
        if answer.kind is MessageKind.VALUE:
            result: Result = value
            return result
        if isinstance(value, MemoryError):
            raise Failure(
                f"{self._subject}: reading it takes more than {self._limits.memory >> 20} MiB of "
                "memory, more than dballoc takes for it"
            )
        assert isinstance(value, BaseException)
        raise value

    def _give_up(self, child: _AbandonableChild, touch: Touch | None) -> None:
        """Kill the child, and wait a moment for its end."""
        self._child = None
        child.talk.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        if _wait_for_end(child.pid) is None:
            self._stuck[child.pid] = touch


def run_abandonable(
    work: Callable[[], Result],
    subject: object,
    limits: LookLimits | None = None,
    announce: Callable[[str], None] = lambda _: None,
    *,
    kept: Collection[int] = (),
) -> Result:
    """Have work done once by a child, as :class:`AbandonableWork` has it, by default within the
    limits of a look. A process that is such a child does it by itself.
    """
    if touches.is_child():
        return work()
    runner: AbandonableWork[None, Result] = AbandonableWork(
        lambda _: work(), limits or look_limits(), str(subject), announce, kept=kept
    )
    try:
        return runner.run(None)
    finally:
        runner.close()


def _wait_for_end(pid: int) -> int | None:
    """Return the status of a child that ends within a moment, None of one that does not."""
    until = time.monotonic() + _SECONDS_TO_END
    while (status := _read_end(pid)) is None and time.monotonic() < until:
        time.sleep(0.002)
    return status


def _read_end(pid: int) -> int | None:
    """Return the status of a child, as of waitpid(2), if it has ended; 0 if it was waited for."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if ended else None


def _describe_end(status: int | None) -> str:
    """Return how a child ended that gave no answer."""
    if status is None or not os.WIFSIGNALED(status):
        return "its reader ended without an answer"
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU:
        return "reading it takes more CPU time than dballoc takes for it"
    return f"its reader was ended by {signal.Signals(number).name}"
