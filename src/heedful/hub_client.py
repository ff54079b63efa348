"""The hub's client, made quiet: what is fetched through it is told in one line of ours and none of its own."""

import contextlib
import logging
import sys
from collections.abc import Iterator


def say(line: str) -> None:
    """The one line that a fetch may print; to stderr, since stdout is for results."""
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No progress bars and no advice from the client while it works for us."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    logger = logging.getLogger("huggingface_hub")
    level, shown = logger.level, not are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if shown:
            enable_progress_bars()
