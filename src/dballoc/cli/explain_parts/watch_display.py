"""``dballoc explain --watch``: a live display on a terminal, a line for each snapshot elsewhere; at
the end a summary.
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
from dballoc.cli.explain_parts.text_plot import draw_plot
from dballoc.cli.shared.safe_output import clean, safe
from dballoc.document.terminal import start_list
from dballoc.explain.difference import compare_explanations, describe_vsz_and_cpu
from dballoc.explain.explanation import Explanation
from dballoc.explain.output import saved_snapshots
from dballoc.explain.watch import Look, WatchPace, WatchReading, watch
from dballoc.ground.errors import Failure
from dballoc.ground.numbers import duration, mebibytes, signed_mebibytes
from dballoc.host.process.handle import Process

# Lines of the plot, and of the table below it at most: it must fit a terminal of 24 lines with the
# verdicts.
_HEIGHT, _LINES = 5, 10


def run_watch(
    process: Process, look: Look, pace: WatchPace, series_file: Path | None, console: Console
) -> list[Explanation]:
    """Watch until the time is over, ``q``, Ctrl-C, or the server's end (Failure, after the
    summary), and return the series. ``series_file``: where every snapshot is saved.
    """
    latest: WatchReading | None = None
    ended: Failure | None = None
    with _open_keyboard() as read_key, _open_display(console) as show:
        try:
            for reading in watch(process, look, pace, lambda seconds: _wait(seconds, read_key)):
                if series_file:
                    saved_snapshots.append_snapshot(
                        reading.explanation, series_file, first=latest is None
                    )
                latest = reading
                show(latest)
        except KeyboardInterrupt:
            pass
        except Failure as error:
            ended = error
    if latest:
        _print_summary(console, latest, series_file)
    if ended:
        raise ended
    return latest.series if latest else []


def _print_summary(console: Console, reading: WatchReading, series_file: Path | None) -> None:
    first, last = clean(reading.series[0]), clean(reading.explanation)
    console.print()
    if len(reading.series) > 1:
        ledger_table.print_difference(console, compare_explanations(first, last))
        console.print()
    console.print(Text(last.answer, style="bold"))
    ledger_table.print_verdicts(console, last.verdicts)
    if series_file:
        console.print(f"\nSeries: {series_file}", soft_wrap=True, highlight=False, markup=False)


def _wait(seconds: float, read_key: Callable[[float], str]) -> bool:
    """Wait so many seconds; return False at once if the user ends the watch."""
    until = time.monotonic() + seconds
    while (remaining := until - time.monotonic()) > 0:
        if read_key(remaining) in ("q", "Q", "\x1b"):
            return False
    return True


@contextmanager
def _open_keyboard() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits for a key for so many seconds and returns it; without a terminal
    to read from it only waits.
    """
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield sleep
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read_key(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield read_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _open_display(console: Console) -> Iterator[Callable[[WatchReading], None]]:
    if not console.is_terminal:
        yield lambda reading: _print_line(console, reading)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda reading: live.update(_draw_screen(console, reading), refresh=True)


def _print_line(console: Console, reading: WatchReading) -> None:
    first, last = reading.series[0], reading.explanation
    since = last.timestamp - first.timestamp
    moved = (
        sorted(compare_explanations(first, last).changes, key=lambda c: -abs(c.change))[:2]
        if since
        else []
    )
    changes = "".join(f"; {safe(c.owner)} {signed_mebibytes(c.change)}" for c in moved if c.change)
    change = signed_mebibytes(last.ledger.rss - first.ledger.rss)
    vsz_and_cpu = describe_vsz_and_cpu(reading.series)
    console.print(
        f"{time.strftime('%H:%M:%S', time.localtime(last.timestamp))}  RSS "
        f"{mebibytes(last.ledger.rss)} MiB ({change}){changes}; {vsz_and_cpu}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _draw_screen(console: Console, reading: WatchReading) -> RenderableType:
    first, last = clean(reading.series[0]), clean(reading.explanation)
    ledger = last.ledger
    since = last.timestamp - first.timestamp
    head = Text(
        f"{ledger.executable} (process {ledger.pid}), {ledger.malloc}",
        style="bold",
        no_wrap=True,
        overflow="ellipsis",
    )
    times = [e.timestamp for e in reading.series]
    plot = draw_plot(
        times, [e.ledger.rss / 2**20 for e in reading.series], console.width, _HEIGHT, "MiB"
    )
    cost, pause = f"{reading.cost * 1e3:.0f} ms", duration(reading.pause)
    state = (
        f"{len(reading.series)} snapshots in {duration(since)}; one costs {cost}, the next one "
        f"comes in {pause}; q ends the watch"
    )
    return Group(
        *(head, _title_plot(reading), Text("\n".join(plot), no_wrap=True), Text()),
        *(_make_table(first, last, since, console), Text()),
        *_list_headlines(last),
        Text(state, style="dim"),
    )


def _title_plot(reading: WatchReading) -> Text:
    """Return the line above the plot of RSS, with what ps and top show beside it."""
    text = f"RSS; beside it: {describe_vsz_and_cpu(reading.series)}"
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")


def _list_headlines(explanation: Explanation) -> list[Text]:
    lines = []
    for verdict in explanation.verdicts[:3]:
        sign, colour = ledger_table.choose_mark(verdict.level)
        lines.append(
            Text(f"{sign} {verdict.headline}", style=colour, no_wrap=True, overflow="ellipsis")
        )
    return lines


def _make_table(first: Explanation, last: Explanation, since: float, console: Console) -> Table:
    """Return the table of the largest lines and those that changed most, by size."""
    changes = compare_explanations(first, last).changes
    most = max(3, min(_LINES, console.height - _HEIGHT - 10))
    shown = {id(c) for c in sorted(changes, key=lambda c: -max(c.after, abs(c.change) * 10))[:most]}
    table = start_list(("owner", "now, MiB", "since the start, MiB", "MiB a minute"), {"owner"})
    rss = ("RSS", last.ledger.rss, last.ledger.rss - first.ledger.rss)
    lines = sorted((c for c in changes if id(c) in shown), key=lambda c: -c.after)
    for owner, now, change in [*((c.owner, c.after, c.change) for c in lines), rss]:
        rate = signed_mebibytes(change / since * 60) if since else "–"
        style = "bold" if owner == "RSS" else ""
        table.add_row(owner, mebibytes(now), signed_mebibytes(change), rate, style=style)
    return table
