"""What a run says while it works: one live line on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

from heedful.training.cost import peak_memory
from heedful.training.state import Progress


class Narrator:
    def __init__(self, name: str, tokens_per_step: float, quiet: bool = False) -> None:
        self.name, self.tokens_per_step, self.quiet = name, tokens_per_step, quiet
        self.live = sys.stderr.isatty() and not quiet
        self.started, self.shown, self.first_step = time.monotonic(), 0.0, -1
        self.dev, self.steps, self.loss = "", 0, 0.0

    def say(self, line: str) -> None:
        if not self.quiet:
            self._clear()
            print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def watch(self, progress: Progress, steps: int, news: dict[str, Any]) -> None:
        if self.first_step < 0:
            self.first_step = progress.step - 1
        self.steps = steps or self.steps
        if progress.losses:
            self.loss = progress.losses[-1]
        if news:
            shown = {k: v for k, v in news["metrics"].items() if isinstance(v, float)}
            first = next(iter(shown), "score")
            self.dev = f"dev {first} {shown.get(first, news['score']):.4f}"
            self.say(f"epoch {news['epoch']}, step {progress.step} of {self.steps}: loss {self.loss:.4f}, {self.dev}")
        elif self.live and time.monotonic() - self.shown > 0.2:
            self.shown = time.monotonic()
            done = progress.step - self.first_step
            speed = done / max(1e-9, self.shown - self.started)
            left = (self.steps - progress.step) / max(1e-9, speed)
            line = (
                f"{self.name}: step {progress.step}/{self.steps}  {_clock(left)} left  loss {self.loss:.4f}  "
                f"{self.dev}  {speed * self.tokens_per_step:,.0f} tokens/s  {peak_memory() / 1e9:.2f} GB"
            )
            print(f"\r\x1b[2K{line[:118]}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self.live:
            print("\r\x1b[2K", end="", file=sys.stderr)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
