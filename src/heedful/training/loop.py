"""The loop. One step is `_step`: rows → scores → loss → gradient → weights; everything else is around it."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful.errors import WorkError
from heedful.objectives.classify import Loss
from heedful.recipes.schema import TrainingTable, TuningTable
from heedful.streams import seed_of
from heedful.training.batches import epoch_batches
from heedful.training.optimiser import lr_factor, make_optimiser, scale_of
from heedful.training.state import Progress, load_state, put_weights, save_state
from heedful.tuning.methods import Method

_LOG_EVERY = 20  # steps
_TABLE = "body.embeddings.token.weight"


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """Somebody asked the run to stop; its state is on disk."""


@dataclass
class Fit:
    """Everything that one training needs; `run` goes from wherever the state on disk is to the end."""

    method: Method
    loss: Loss
    targets: Tensor
    rows: Sequence[int]
    """Numbers of the training rows in their file, for messages."""
    training: TrainingTable
    tuning: TuningTable
    seed: int
    directory: Path
    judge: Callable[[], dict[str, Any]] | None
    """Scores dev: {"score": higher is better, "metrics": {...}}; None without dev."""
    watch: Callable[[Progress, int, dict[str, Any]], None]
    """Told after each step: progress, steps in all, what is new."""
    should_stop: Callable[[], bool]
    bars: Mapping[int, float] = field(default_factory=dict)
    """What the best score must have reached by the end of an epoch; else training ends there."""
    clock: float = field(default_factory=time.monotonic)
    """From when on seconds are not in `progress.total_seconds` yet; at first, the beginning of this sitting."""

    def run(self) -> Progress:
        self.parameters = self.method.trainable()
        layers = self.method.transformer.shape.layers
        decay = self.tuning.layer_decay
        self.optimiser = make_optimiser(self.parameters, self.training.weight_decay, layers, decay)
        self.table_scale = scale_of(_TABLE, layers, decay)
        self.progress, self.best = load_state(self.directory / "checkpoints", self.parameters, self.optimiser)
        _cut(self.directory / "log.jsonl", self.progress.log_bytes)
        lengths = self.method.lengths("train")
        counts = self._counts(lengths)
        epoch, before = 0, 0
        saved = time.monotonic()
        while epoch < len(counts) and not self.progress.finished:
            if self.progress.step < before + counts[epoch]:
                batches = self._batches(lengths, epoch)
                for rows in batches[self.progress.step - before :]:
                    started = time.monotonic()
                    self._step(rows, epoch, sum(counts))
                    self.progress.seconds += time.monotonic() - started
                    self.watch(self.progress, sum(counts), {})
                    ends = self.progress.step == before + counts[epoch]
                    if self.should_stop() and not ends:
                        self._save()
                        raise Stopped
                    if not ends and time.monotonic() - saved > self.training.checkpoint_seconds:
                        self._save()
                        saved = time.monotonic()
                self._end_epoch(epoch, last=epoch == len(counts) - 1)
                self._save()
                saved = time.monotonic()
                if self.should_stop() and not self.progress.finished:
                    raise Stopped
            before += counts[epoch]
            epoch += 1
        if self.best is not None and self.training.keep == "best":
            put_weights(self.parameters, self.best)
            self.progress.decay = self.progress.best_decay
        return self.progress

    def _step(self, rows: list[int], epoch: int, steps: int) -> None:
        """One step of AdamW on these rows; their loss is a sum over parts divided by the weight of the whole."""
        table, progress = self.training, self.progress
        self.method.train(True)
        weight = self.loss.weights(self.targets[rows]).sum()
        total = 0.0
        for number, part in enumerate(_parts(rows, table.accumulate)):
            self._seed(seed_of(self.seed, progress.step, number))  # dropout hangs on these alone: nothing to save
            with torch.autocast("cuda", torch.bfloat16, enabled=self.targets.is_cuda):
                scores_bk = self.method.scores("train", part)
            loss = self.loss.sum(scores_bk, self.targets[part]) / weight
            total += float(loss.detach())
            if not math.isfinite(total):
                self._refuse(rows)
            loss.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        length = float(nn.utils.get_total_norm(gradients))
        if not math.isfinite(length):
            self._refuse(rows, "gradient")
        shrink = math.inf if table.clip is None else table.clip / (length + 1e-6)
        if shrink < 1:
            torch._foreach_mul_(gradients, shrink)
        lr = table.lr * lr_factor(progress.step, steps, table.warmup, table.schedule)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group["scale"]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        progress.decay *= 1 - lr * self.table_scale * table.weight_decay
        progress.step += 1
        progress.losses.append(total)
        if progress.step % _LOG_EVERY == 0:
            self._log_losses(epoch, lr)

    def _seed(self, value: int) -> None:
        if self.targets.device.type == "cpu":  # torch.manual_seed asks after every device: a third of a millisecond
            torch.default_generator.manual_seed(value)
        else:
            torch.manual_seed(value)

    def _end_epoch(self, epoch: int, last: bool) -> None:
        progress = self.progress
        if progress.losses:
            self._log_losses(epoch, None)
        progress.finished, progress.epochs = last, epoch + 1
        if self.judge is None:
            self.watch(progress, 0, {"epoch": epoch + 1, "score": None, "metrics": {}})
            return
        self.method.train(False)
        found = self.judge()
        self._log({"step": progress.step, "epoch": epoch + 1, "dev": found["metrics"]})
        score = found["score"] if math.isfinite(found["score"]) else None  # an undefined one is worse than any
        before = progress.best
        if before is None or (score is not None and (before["score"] is None or score > before["score"])):
            progress.best = {"step": progress.step, "epoch": epoch + 1, "score": score}
            progress.best_decay = progress.decay
            progress.epochs_without_gain = 0
            self.best = {n: p.detach().cpu().clone() for n, p in self.parameters.items()}
        else:
            progress.epochs_without_gain += 1
            if self.training.patience is not None and progress.epochs_without_gain >= self.training.patience:
                progress.finished = True
        bar, best = self.bars.get(epoch + 1), (progress.best or {}).get("score")
        if bar is not None and not progress.finished and (best is None or best < bar):
            progress.finished = progress.pruned = True
        self.watch(progress, 0, {"epoch": epoch + 1, **found})

    def _log_losses(self, epoch: int, lr: float | None) -> None:
        losses, self.progress.losses = self.progress.losses, []
        line = {"step": self.progress.step, "epoch": epoch + 1, "loss": sum(losses) / len(losses)}
        self._log(line if lr is None else {**line, "lr": lr})

    def _log(self, line: dict[str, Any]) -> None:
        """The log holds nothing that differs between two runs of one recipe: no times, no paths."""
        text = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8")
        with (self.directory / "log.jsonl").open("ab") as file:
            file.write(text)
        self.progress.log_bytes += len(text)

    def _save(self) -> None:
        now = time.monotonic()
        self.progress.total_seconds += now - self.clock
        self.clock = now
        if self.progress.log_bytes:
            with (self.directory / "log.jsonl").open("rb") as log:
                os.fsync(log.fileno())  # the state says how long it is
        save_state(self.directory / "checkpoints", self.progress, self.parameters, self.optimiser, self.best)

    def _refuse(self, rows: list[int], what: str = "loss") -> None:
        numbers = [self.rows[r] for r in rows]
        shown = ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")
        raise WorkError(
            f"step {self.progress.step + 1}: the {what} is not finite, so the step was not made (rows {shown}); "
            "look at these rows, or lower training.lr."
        )

    def _batches(self, lengths: list[int], epoch: int) -> list[list[int]]:
        return epoch_batches(lengths, self.seed, epoch, self.training.batch_size, self.training.batch_tokens)

    def _counts(self, lengths: list[int]) -> list[int]:
        """How many steps each epoch has: known before the first, since the schedule needs the sum."""
        if self.training.batch_tokens is None:
            return [-(-len(lengths) // self.training.batch_size)] * self.training.epochs
        return [len(self._batches(lengths, epoch)) for epoch in range(self.training.epochs)]


def _parts(rows: list[int], parts: int) -> list[list[int]]:
    size = -(-len(rows) // parts)
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _cut(log: Path, size: int) -> None:
    """What was logged after the last state was saved will be logged again."""
    if log.exists() or size:
        with log.open("r+b" if log.exists() else "wb") as file:
            file.truncate(size)
