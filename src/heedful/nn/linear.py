"""A linear map with an explicit place for a low-rank change."""

from collections.abc import Callable

from torch import Tensor, nn


class Linear(nn.Linear):
    """W x + b, and what `delta` says of x, if something stands there. The place owns no parameters."""

    delta: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if self.delta is None else y + self.delta(x)
