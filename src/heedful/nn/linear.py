"""A linear map that takes a low-rank change as an argument."""

from collections.abc import Callable

from torch import Tensor, nn

Delta = Callable[[Tensor], Tensor]
"""What a low-rank change adds to a linear map's output for x."""


class Linear(nn.Linear):
    """W x + b, plus `delta(x)` where one is given."""

    def forward(self, x: Tensor, delta: Delta | None = None) -> Tensor:
        y = super().forward(x)
        return y if delta is None else y + delta(x)
