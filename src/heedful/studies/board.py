"""What a study shows while it runs: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from heedful.training.progress import Lines, Tell, clock, roughly, silent


@contextmanager
def board(names: list[str], done: set[str], quiet: bool, expected: float | None = None) -> Iterator[Tell]:
    """The function that the runs report their news to. `done` were finished before; the others are expected to take
    `expected` seconds."""
    if quiet:
        yield silent
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        drawn = Board(names, done, expected=expected)
        with Live(get_renderable=drawn.table, console=drawn.console, refresh_per_second=4, transient=True) as live:
            drawn.live = live
            yield drawn


class Board:
    def __init__(
        self, names: list[str], done: set[str], console: Console | None = None, expected: float | None = None
    ) -> None:
        self.names, self.done, self.news = names, set(done), dict[str, dict[str, Any]]()
        self.before, self.expected = len(done), expected
        self.console = console or Console(stderr=True)
        self.live: Live | None = None
        self.started = time.monotonic()

    def __call__(self, name: str, news: dict[str, Any]) -> None:
        if "line" in news:
            self.console.print(f"{name}: {news['line']}", markup=False, highlight=False)
        elif "ended" in news:
            self.done |= {name} if news["ended"] == "done" else set()
            last = self.news.pop(name, {})
            words = ", ".join(filter(None, [news["ended"], last.get("dev")]))
            self.console.print(f"{name}: {words}", markup=False, highlight=False)
        else:
            self.news[name] = {**self.news.get(name, {}), **news}

    def left(self) -> float | None:
        """Seconds: from the runs that finished since it started; before the first one, from what was expected."""
        passed, finished = time.monotonic() - self.started, len(self.done) - self.before
        if finished:
            return passed / finished * (len(self.names) - len(self.done))
        return None if self.expected is None else max(0.0, self.expected - passed)

    def table(self) -> Table:
        passed = clock(time.monotonic() - self.started)
        left = self.left()
        words = "" if left is None else f", about {roughly(left)} left"
        title = f"{len(self.done)} of {len(self.names)} runs done, {passed}{words}"
        rich_table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
        for name in ("run", "step", "left", "loss", "dev", "tokens/s", "memory"):
            rich_table.add_column(name, justify="left" if name in ("run", "dev") else "right", no_wrap=True)
        for name, news in list(self.news.items()):  # runs come and go while this is drawn
            rich_table.add_row(
                name,
                f"{news['step']}/{news['steps']}",
                "–" if news["left"] is None else clock(news["left"]),
                f"{news['loss']:.3f}",
                news["dev"].removeprefix("dev "),
                f"{news['speed']:,.0f}",
                f"{news['memory'] / 1e9:.2f} GB",
            )
        return rich_table
