"""The loop. One step is `Fit._step`: examples → losses → gradients → weights; everything else is around it.

It knows neither what is learned (`objectives/`), nor from what (`inputs/`), nor which weights move (`tuning/`).
"""

import functools
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heedful.errors import WorkError
from heedful.evaluators.protocol import Evaluator
from heedful.inputs.protocol import Inputs, Sampler, Step
from heedful.nn.attention import linear_maps
from heedful.objectives.protocol import Objective, StepContext
from heedful.recipes.schema import TrainingTable
from heedful.streams import seed_generators
from heedful.training.optimisers.common import make_optimiser
from heedful.training.processes import Processes
from heedful.training.schedule import make_schedule
from heedful.training.state import Progress, load_state, put_weights, save_state
from heedful.tuning.protocol import TABLE, Tuning

_LOG_EVERY = 20  # steps


class Stopped(Exception):  # noqa: N818 (nothing went wrong)
    """Somebody asked the run to stop; its state is on disk."""


class StepError(WorkError):
    """A loss or a gradient was not finite: every process of a group raises it in the same step."""


@dataclass
class Fit:
    """Everything that one training needs; `run` goes from wherever the state on disk is to the end."""

    objective: Objective
    inputs: Inputs[Any]
    sampler: Sampler
    evaluator: Evaluator[Any]
    tuning: Tuning
    training: TrainingTable
    seed: int
    directory: Path
    judge: Callable[[int], dict[str, Any]] | None
    """Scores dev in the stage of this number: {"score": higher is better, "begun": whether it is above what nothing
    learned scores, "metrics": {...}}; None without dev."""
    watch: Callable[[Progress, int, dict[str, Any]], None]
    """Told after each step: progress, steps in all, what is new."""
    should_stop: Callable[[], bool]
    thresholds: Mapping[int, float] = field(default_factory=dict)
    """What the best score must have reached at a mark, by its number; else training ends there."""
    keep_mark: Callable[[Progress], None] | None = None
    """Keeps the model as it is at a mark."""
    clock: float = field(default_factory=time.monotonic)
    """From when on seconds are not in `progress.total_seconds` yet; at first, the beginning of this sitting."""
    group: Processes = field(default_factory=Processes)
    """Who else trains the same model; each has a `Fit` of its own, and that of the first alone writes."""

    def run(self) -> Progress:
        self.parameters = self.tuning.trainable()
        self.optimiser = self._fresh_optimiser()
        self.table_scale = self.tuning.lr_scale(TABLE)
        self.progress, self.best = load_state(self.directory / "checkpoints", self.parameters, self.optimiser)
        self.sampler.restore(self.progress.sampler)
        self.writes = self.group.first
        if self.writes:
            _cut(self.directory / "log.jsonl", self.progress.log_bytes)
        self.parts, self.stop_agreed = self.group.parts(self.training.accumulate), False
        self.schedule = make_schedule(self.training, self.sampler)
        self.tuning.train(True)
        saved = time.monotonic()
        while not self.progress.finished:
            started, tokens = time.monotonic(), self.progress.tokens
            step = self.sampler.step(self.progress.step, self.schedule.share(self.progress.step, tokens))
            lr = self.schedule.lr(self.progress.step, tokens, sum(step.lengths))
            self._step(step, lr)
            self.progress.forward_flops += step.forward_flops(getattr(self.tuning.reader.module, "shape", None))
            if self.progress.step % _LOG_EVERY == 0:
                self._log_losses(lr)
            self.progress.seconds += time.monotonic() - started
            self.watch(self.progress, self.schedule.expected_steps(self.progress.step, self.progress.tokens), {})
            at_mark = self.schedule.is_mark(self.progress.step, tokens, self.progress.tokens)
            if at_mark:
                self._mark()
                if self.keep_mark is not None and self.writes:
                    self.keep_mark(self.progress)
            if self.progress.step in self.schedule.stage_ends:
                self._end_stage()
            asked = self.should_stop() if self.group.count == 1 else self.stop_agreed
            stop = asked and not self.progress.finished
            if at_mark or stop or time.monotonic() - saved > self.training.checkpoint_seconds:
                self._save()
                saved = time.monotonic()
            if stop:
                raise Stopped
        self._keep_best()
        return self.progress

    def _step(self, step: Step, lr: float) -> None:
        """Move the weights once: the gradients of the objective's partial losses add up to the step's."""
        progress, reader = self.progress, self.tuning.reader
        # All randomness is a function of (seed, step, part), so there is no state of a generator to save.
        reseed = functools.partial(seed_generators, reader.device.type, self.seed, progress.step)
        context = StepContext(self.parts, reseed, self.group.gather)
        counts, terms, finite = self.objective.counts(step), dict[str, float](), True
        for partial in self.objective.losses(reader, step, counts, context):
            for name, value in partial.terms.items():
                terms[name] = terms.get(name, 0.0) + float(value)
            finite = math.isfinite(sum(terms.values()))
            if not finite and self.group.count == 1:
                break  # in a group, a process that left its losses here would leave the others waiting in `gather`
            partial.loss.backward()  # type: ignore[no-untyped-call]
        if self.tuning.penalty is not None and finite and self.group.rank == 0:
            penalty = self.tuning.penalty()
            penalty.backward()  # type: ignore[no-untyped-call]
            terms["penalty"] = float(penalty.detach())
        if self.group.count > 1:
            terms, finite = self._add_up(counts, terms, finite)
        if not finite:
            self._refuse(step)
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        length = float(nn.utils.get_total_norm(gradients))
        if not math.isfinite(length):
            self._refuse(step, "gradient")
        shrink = math.inf if self.training.clip is None else self.training.clip / (length + 1e-6)
        if shrink < 1:
            torch._foreach_mul_(gradients, shrink)
        for group in self.optimiser.param_groups:
            group["lr"] = lr * group["scale"]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        progress.decay *= 1 - lr * self.table_scale * self.training.weight_decay
        progress.step += 1
        progress.tokens += sum(step.lengths)
        progress.losses.append(terms)

    def _add_up(
        self, counts: Mapping[str, float], terms: Mapping[str, float], finite: bool
    ) -> tuple[dict[str, float], bool]:
        """The gradients and loss terms of all processes; whether every loss was finite."""
        names = [*counts] if self.tuning.penalty is None else [*counts, "penalty"]
        if strange := terms.keys() - set(names):
            raise ValueError(f"loss terms that the objective's counts do not name: {', '.join(sorted(strange))}")
        own = {name: terms.get(name, 0.0) for name in names}
        added, (broken, asked) = self.group.add_up(self.parameters.values(), own, not finite, self.should_stop())
        self.stop_agreed = asked
        return added, not broken

    def _mark(self) -> None:
        """Judge, keep the best, and see whether to go on."""
        progress = self.progress
        if progress.losses:
            self._log_losses(None)
        progress.finished, progress.marks = self.schedule.is_end(progress.step, progress.tokens), progress.marks + 1
        place = {"step": progress.step, "mark": progress.marks}
        epochs = self.schedule.epochs_done(progress.step)
        if epochs is not None:
            place |= {"epoch": epochs}  # type: ignore[dict-item]
        if self.judge is None:
            self.watch(progress, 0, {**place, "score": None, "metrics": {}})
            return
        self.tuning.train(False)
        stage, judge = self.schedule.stage(progress.step), self.judge
        judged = self.group.from_first(lambda: judge(stage))
        self.tuning.train(True)
        self._log({**place, "tokens": progress.tokens, "dev": judged["metrics"]})
        score = judged["score"] if math.isfinite(judged["score"]) else None  # an undefined one is worse than any
        before = progress.best
        gained = before is None or (score is not None and (before["score"] is None or score > before["score"]))
        # While nothing has been learned, no mark is better than another: the last is kept, and patience waits.
        if gained or (before is not None and score == before["score"] and not judged.get("begun", True)):
            progress.best = {**place, "score": score}
            progress.best_decay = progress.decay
            progress.marks_without_gain = 0
            self.best = {n: p.detach().cpu().clone() for n, p in self.parameters.items()}
        else:
            progress.marks_without_gain += 1
            if self.training.patience is not None and progress.marks_without_gain >= self.training.patience:
                progress.finished = True
        threshold, best = self.thresholds.get(progress.marks), (progress.best or {}).get("score")
        if threshold is not None and not progress.finished and (best is None or best < threshold):
            progress.finished = progress.pruned = True
        self.watch(progress, 0, {**place, **judged})

    def _end_stage(self) -> None:
        """A stage leaves its best weights; the next begins with a fresh optimiser and finds its own best."""
        self._keep_best()
        stage = self.schedule.stage_ends.index(self.progress.step)
        self.tuning.train(False)
        outcome = self.evaluator.end_stage(self.tuning.reader, self.inputs, stage)
        self.tuning.train(True)
        self.progress.stages.append(outcome)
        self._log({"step": self.progress.step, "stage": stage + 1, **outcome})
        if not self.progress.finished:
            self.optimiser, self.best = self._fresh_optimiser(), None
            self.progress.best, self.progress.marks_without_gain = None, 0

    def _keep_best(self) -> None:
        if self.best is not None and self.training.keep == "best":
            put_weights(self.parameters, self.best)
            self.progress.decay = self.progress.best_decay

    def _fresh_optimiser(self) -> torch.optim.Optimizer:
        maps = linear_maps(self.tuning.reader.module)
        return make_optimiser(self.parameters, self.training, self.tuning.lr_scale, maps)

    def _log_losses(self, lr: float | None) -> None:
        losses, self.progress.losses = self.progress.losses, []
        line: dict[str, Any] = {"step": self.progress.step}
        epoch = self.schedule.epoch(self.progress.step)
        if epoch is not None:
            line["epoch"] = epoch
        line["loss"] = sum(sum(terms.values()) for terms in losses) / len(losses)
        names = dict.fromkeys(name for terms in losses for name in terms)
        if len(names) > 1:
            line["terms"] = {name: sum(terms.get(name, 0.0) for terms in losses) / len(losses) for name in names}
        self._log(line if lr is None else {**line, "lr": lr})

    def _log(self, line: dict[str, Any]) -> None:
        """The log holds nothing that differs between two runs of one recipe: no times, no paths."""
        if not self.writes:
            return
        text = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8")
        with (self.directory / "log.jsonl").open("ab") as file:
            file.write(text)
        self.progress.log_bytes += len(text)

    def _save(self) -> None:
        if not self.writes:
            return
        now = time.monotonic()
        self.progress.total_seconds += now - self.clock
        self.clock = now
        self.progress.sampler = self.sampler.state()
        if self.progress.log_bytes:
            with (self.directory / "log.jsonl").open("rb") as log:
                os.fsync(log.fileno())  # the state says how long it is
        save_state(self.directory / "checkpoints", self.progress, self.parameters, self.optimiser, self.best)

    def _refuse(self, step: Step, what: str = "loss") -> None:
        raise StepError(
            f"step {self.progress.step + 1}: the {what} is not finite, so the step was not made "
            f"({step.where()}); look at these, or lower training.lr."
        )


def _cut(log: Path, size: int) -> None:
    """What was logged after the last state was saved will be logged again."""
    if log.exists() or size:
        with log.open("r+b" if log.exists() else "wb") as file:
            file.truncate(size)
