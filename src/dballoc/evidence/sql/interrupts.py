"""Undo, or finish, work that is interrupted: by Ctrl-C, SIGTERM, or a terminal that goes away."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Signals of this process while they are handled here. The first one raises KeyboardInterrupt,
    unless they are held; those after it, or while they are held, wait.
    """

    def __init__(self) -> None:
        self.held = False
        self.waiting = False

    def hold(self) -> None:
        """Let every signal from now on wait."""
        self.held = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle one signal: raise KeyboardInterrupt, or let it wait."""
        if self.held:
            self.waiting = True
            return
        # Set before raising, so that a second signal cannot interrupt the handling of the first.
        self.held = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def undo_on_interrupt(undo: Callable[[], None], always: bool = False) -> Iterator[None]:
    """Call ``undo`` when the work within fails or is interrupted, or ``always``; no signal
    interrupts ``undo``. The error is raised afterwards, as is an interruption that has waited.
    """
    with _handle_signals() as interrupts:
        succeeded = False
        # An interruption may come between any two of these steps. The first one holds all others,
        # so that either the work or its undoing is complete.
        try:
            try:
                yield
                succeeded = not always
            finally:
                interrupts.hold()
        finally:
            if not succeeded:
                undo()
        if interrupts.waiting:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _handle_signals() -> Iterator[Interrupts]:
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # Python handles signals in the main thread alone
        return
    before = {number: signal.signal(number, interrupts.handle) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
