"""The state of an unfinished run: safetensors and JSON in a directory that is replaced in one step."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heedful.storage.directories import replace_directory
from heedful.training.optimisers.common import optimiser_tensors, restore_optimiser

_FILES = frozenset({"weights.safetensors", "optimiser.safetensors", "best.safetensors", "state.json"})


@dataclass
class Progress:
    """Where a run is. Everything that the loop decides by is here or in the recipe."""

    step: int = 0
    tokens: int = 0
    """Read so far, without padding."""
    forward_flops: int = 0
    """Of one forward pass over what every step so far has read."""
    decay: float = 1.0
    """Product of all steps' (1 − lr · weight decay), for rows of the token table that are not in the optimiser."""
    best: dict[str, Any] | None = None
    """{step, mark, score} of the best mark on dev so far, with its epoch if there are epochs; the score is None if it
    was undefined."""
    best_decay: float = 1.0
    """`decay` at that mark."""
    marks: int = 0
    """Passed so far."""
    marks_without_gain: int = 0
    finished: bool = False
    pruned: bool = False
    """Finished because others were better at the same mark."""
    log_bytes: int = 0
    seconds: float = 0.0
    """Spent in training so far, over all sittings."""
    total_seconds: float = 0.0
    """The same with everything around it: reading, tokenizing, judging, saving."""
    losses: list[dict[str, float]] = field(default_factory=list)
    """Of the steps since the last line of the log, each loss term by its name."""
    sampler: dict[str, Any] = field(default_factory=dict)
    """What the sampler must remember, such as its place in a stream."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    """How each finished stage of training has ended."""


def save_state(
    directory: Path,
    progress: Progress,
    parameters: Mapping[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    best: Mapping[str, Tensor] | None,
) -> None:
    files = {
        "weights": {n: p.detach().cpu().contiguous() for n, p in parameters.items()},
        "optimiser": optimiser_tensors(optimiser, parameters),
    }
    if best is not None:
        files["best"] = {n: t.contiguous() for n, t in best.items()}

    def write(into: Path) -> None:
        try:
            for name, tensors in files.items():
                save_file(tensors, into / f"{name}.safetensors")
        except SafetensorError as error:  # the library's word for a full disk too
            raise OSError(str(error).removeprefix("Error while serializing: ")) from None
        (into / "state.json").write_text(json.dumps(asdict(progress), allow_nan=False), encoding="utf-8")

    replace_directory(directory, write, _FILES)


def load_state(
    directory: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor] | None]:
    """Fills parameters and optimiser; returns the progress and the best weights so far."""
    if not directory.exists():
        return Progress(), None
    progress = Progress(**json.loads((directory / "state.json").read_text(encoding="utf-8")))
    put_weights(parameters, load_file(directory / "weights.safetensors"))
    restore_optimiser(optimiser, parameters, load_file(directory / "optimiser.safetensors"))
    best = directory / "best.safetensors"
    return progress, load_file(best) if best.exists() else None


def put_weights(parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(tensors[name])
