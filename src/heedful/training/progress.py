"""What a run says while it works: to the study that it belongs to, or in plain lines."""

import sys
import time
from collections.abc import Callable
from typing import Any

from heedful.training.cost import peak_memory
from heedful.training.state import Progress

Tell = Callable[[str, dict[str, Any]], None]
"""Told the run's name and news: {"line": words}, or {"step", "steps", "loss", "dev", "left", "speed", "memory"}, with
"mark" and "finished" at a mark, and "epoch" if there are epochs."""
_OFTEN = 0.25  # seconds between two pieces of news


class Narrator:
    def __init__(self, name: str, tell: Tell | None = None) -> None:
        self.name, self.tell = name, tell or Lines()
        self.started, self.last_news = time.monotonic(), 0.0
        self.first: tuple[int, int] | None = None
        self.dev, self.steps, self.loss = "", 0, 0.0

    def say(self, line: str) -> None:
        self.tell(self.name, {"line": line})

    def watch(self, progress: Progress, steps: int, news: dict[str, Any]) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self.started = (progress.step, progress.tokens), now
        self.steps = steps or self.steps
        if progress.losses:
            self.loss = sum(progress.losses[-1].values())
        if news:
            shown = {k: v for k, v in news["metrics"].items() if isinstance(v, float)}
            first = next(iter(shown), None)
            self.dev = "" if first is None else f"dev {first} {shown[first]:.4f}"
        elif now - self.last_news < _OFTEN:
            return
        self.last_news = now
        passed = max(1e-9, now - self.started)
        speed = (progress.step - self.first[0]) / passed
        facts: dict[str, Any] = {
            "step": progress.step,
            "steps": self.steps,
            "loss": self.loss,
            "dev": self.dev,
            "left": (self.steps - progress.step) / speed if speed else None,
            "speed": (progress.tokens - self.first[1]) / passed,
            "memory": peak_memory(),
        }
        if news:
            facts |= {key: news[key] for key in ("mark", "epoch") if key in news} | {"finished": progress.finished}
        self.tell(self.name, facts)


class Lines:
    """A line for each mark, but not for each of those that take a moment; the log has them all."""

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.shown: dict[str, float] = {}

    def __call__(self, name: str, news: dict[str, Any]) -> None:
        now = time.monotonic()
        if "line" in news:
            self._print(f"{name}: {news['line']}")
        elif "mark" in news and (news["finished"] or now - self.shown.get(name, -self.every) >= self.every):
            self.shown[name] = now
            at = f"epoch {news['epoch']:g}" if "epoch" in news else f"evaluation {news['mark']}"
            at += f", step {news['step']} of {news['steps']}: loss {news['loss']:.4f}" if news["steps"] else ""
            self._print(f"{name}: {at}" + (f", {news['dev']}" if news["dev"] else ""))

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def silent(name: str, news: dict[str, Any]) -> None:
    """For those who do not want to hear."""


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def roughly(seconds: float) -> str:
    """In the words in which one would say it, for what is only known roughly."""
    if seconds < 50:
        return f"{max(5, 5 * round(seconds / 5))} seconds"
    if seconds < 90 * 60:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"{seconds / 3600:.1f} hours" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"
