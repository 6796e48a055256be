"""``dballoc explain --watch``: a live display on a terminal, a line for each look elsewhere; at the
end what it came to.
"""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dballoc.cli.explain_parts import ledger_table
from dballoc.cli.explain_parts.text_plot import plot
from dballoc.cli.shared.safe_output import clean, safe
from dballoc.errors import Failure
from dballoc.explain.difference import difference
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import saved_looks
from dballoc.explain.watch import Look, Pace, watch
from dballoc.numbers import duration, mebibytes, signed_mebibytes
from dballoc.process_memory.heaps.heap_probe_estimate import Sample
from dballoc.servers.running.credentials import Credentials

# Lines of the plot, and of the table below it at most: it must fit a terminal of 24 lines with the
# verdicts.
_HEIGHT, _LINES = 5, 10


def run(
    pid: int,
    who: Credentials | None,
    pace: Pace,
    series_file: Path | None,
    console: Console,
    sample: Sample,
) -> list[Explanation]:
    """Watch until the time is over, ``q``, Ctrl-C, or the server's end (Failure, after the
    summary).
    """
    looks: list[Look] = []
    ended: Failure | None = None
    with _keys() as pressed, _display(console) as show:
        try:
            for look in watch(pid, who, pace, lambda seconds: _wait(seconds, pressed), sample):
                if series_file:
                    saved_looks.append(look.found, series_file, first=not looks)
                looks = [look]  # it holds the whole series
                show(look)
        except KeyboardInterrupt:
            pass
        except Failure as error:
            ended = error
    if looks:
        _summary(console, looks[-1], series_file)
    if ended:
        raise ended
    return looks[-1].series if looks else []


def _summary(console: Console, look: Look, series_file: Path | None) -> None:
    first, last = clean(look.series[0]), clean(look.found)
    console.print()
    if len(look.series) > 1:
        ledger_table.print_difference(console, difference(first, last))
        console.print()
    console.print(Text(last.answer, style="bold"))
    ledger_table.print_verdicts(console, last.verdicts)
    if series_file:
        console.print(f"\nSeries: {series_file}", soft_wrap=True, highlight=False, markup=False)


def _wait(seconds: float, pressed: Callable[[float], str]) -> bool:
    """False when the user wants no more."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if pressed(left) in ("q", "Q", "\x1b"):
            return False
    return True


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key for so many seconds; without a terminal to read from it only
    waits.
    """
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield sleep
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _display(console: Console) -> Iterator[Callable[[Look], None]]:
    if not console.is_terminal:
        yield lambda look: _line(console, look)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda look: live.update(_screen(console, look), refresh=True)


def _line(console: Console, look: Look) -> None:
    first, last = look.series[0], look.found
    since = last.taken - first.taken
    moved = (
        sorted(difference(first, last).changes, key=lambda c: -abs(c.change))[:2] if since else []
    )
    what = "".join(f"; {safe(c.owner)} {signed_mebibytes(c.change)}" for c in moved if c.change)
    change = signed_mebibytes(last.ledger.rss - first.ledger.rss)
    console.print(
        f"{time.strftime('%H:%M:%S', time.localtime(last.taken))}  RSS "
        f"{mebibytes(last.ledger.rss)} MiB ({change}){what}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _screen(console: Console, look: Look) -> RenderableType:
    first, last = clean(look.series[0]), clean(look.found)
    ledger = last.ledger
    since = last.taken - first.taken
    head = Text(
        f"{ledger.executable} (process {ledger.pid}), {ledger.malloc}",
        style="bold",
        no_wrap=True,
        overflow="ellipsis",
    )
    times = [e.taken for e in look.series]
    drawn = plot(times, [e.ledger.rss / 2**20 for e in look.series], console.width, _HEIGHT, "MiB")
    state = (
        f"{len(look.series)} looks in {duration(since)}; a look costs {look.cost * 1e3:.0f} ms, "
        f"the next one in {duration(look.pause)}; q ends"
    )
    return Group(
        head,
        Text("RSS", style="dim"),
        Text("\n".join(drawn), no_wrap=True),
        Text(),
        _lines(first, last, since, console),
        Text(),
        *_headlines(last),
        Text(state, style="dim"),
    )


def _headlines(found: Explanation) -> list[Text]:
    lines = []
    for verdict in found.verdicts[:3]:
        sign, colour = ledger_table.mark(verdict.level)
        lines.append(
            Text(f"{sign} {verdict.headline}", style=colour, no_wrap=True, overflow="ellipsis")
        )
    return lines


def _lines(first: Explanation, last: Explanation, since: float, console: Console) -> Table:
    """The largest lines and those that changed most, in the ledger's order of size."""
    changes = difference(first, last).changes
    most = max(3, min(_LINES, console.height - _HEIGHT - 10))
    shown = {id(c) for c in sorted(changes, key=lambda c: -max(c.after, abs(c.change) * 10))[:most]}
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("owner", "now, MiB", "since the start, MiB", "MiB a minute"):
        table.add_column(heading, justify="left" if heading == "owner" else "right", no_wrap=True)
    rss = ("RSS", last.ledger.rss, last.ledger.rss - first.ledger.rss)
    lines = sorted((c for c in changes if id(c) in shown), key=lambda c: -c.after)
    for owner, now, change in [*((c.owner, c.after, c.change) for c in lines), rss]:
        rate = signed_mebibytes(change / since * 60) if since else "–"
        style = "bold" if owner == "RSS" else ""
        table.add_row(owner, mebibytes(now), signed_mebibytes(change), rate, style=style)
    return table
