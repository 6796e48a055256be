"""Work that must be undone, or ended, also when somebody interrupts it: Ctrl-C, SIGTERM, a terminal
that goes away.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Of this process, while they are handled here: the first one raises KeyboardInterrupt, unless
    they are held; then, and after it, they wait.
    """

    def __init__(self) -> None:
        self.held = False
        self.waiting = False

    def hold(self) -> None:
        """From now on they wait."""
        self.held = True

    def come(self, number: int, frame: FrameType | None) -> None:
        """One has come."""
        if self.held:
            self.waiting = True
            return
        # Before it is raised, so that no second one can stop what the first one leads to.
        self.held = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def undone(undo: Callable[[], None], always: bool = False) -> Iterator[None]:
    """Call ``undo`` when what is done within fails or is interrupted, or ``always``; nothing
    interrupts that. What went wrong is raised afterwards, an interruption that has waited too.
    """
    with _handled() as interrupts:
        succeeded = False
        # An interruption may come between any two of these steps; it holds all others, so that one
        # of both is at its end.
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
def _handled() -> Iterator[Interrupts]:
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # only the main one has them
        return
    before = {number: signal.signal(number, interrupts.come) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
