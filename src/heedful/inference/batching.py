"""Which rows are computed together: the one loop from inputs of any length to answers in their order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class BatchRule:
    """How large a batch may be."""

    rows: int = 64
    tokens: int | None = 1024
    """With padding; a longer row is computed by itself. None: any number. A CPU gains nothing from larger batches, and
    loses to padding what it computes for texts of mixed lengths (docs/log.md)."""


def rule_for(device: torch.device, rows: int = BatchRule.rows) -> BatchRule:
    """Return the rule that suits a device: an accelerator needs larger batches to be busy."""
    return BatchRule(rows) if device.type == "cpu" else BatchRule(max(rows, 256), 16_384)


def batches(lengths: Sequence[int], rule: BatchRule) -> Iterator[list[int]]:
    """Yield the numbers of rows of similar length, the longest first, so that their memory is reused."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    rows: list[int] = []
    for row in order:
        too_long = rule.tokens is not None and rows and (len(rows) + 1) * lengths[rows[0]] > rule.tokens
        if len(rows) == rule.rows or too_long:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def in_order(lengths: Sequence[int], rule: BatchRule, answer: Callable[[list[int]], Sequence[Answer]]) -> list[Answer]:
    """Return the answer to each row, in their order. `answer` is given the rows of a batch."""
    answers: dict[int, Answer] = {}
    for rows in batches(lengths, rule):
        answers |= zip(rows, answer(rows), strict=True)
    return [answers[row] for row in range(len(lengths))]


def fill(out: Any, lengths: Sequence[int], rule: BatchRule, compute: Callable[[list[int]], Any]) -> None:
    """Put what is computed of each row into its place of an array or tensor, without gradients."""
    with torch.inference_mode():
        for rows in batches(lengths, rule):
            out[rows] = compute(rows)
