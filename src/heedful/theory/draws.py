"""What demonstrations draw, in double precision and from a generator of their own; and attention whose weights are set
by hand."""

import torch
from torch import Tensor, nn

from heedful.nn.attention import Attend, MultiHeadAttention, dot_product


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


def orthogonal(generator: torch.Generator, draws: int, d: int) -> Tensor:
    """(draws, d, d): each the Q of a normal matrix."""
    found: Tensor = torch.linalg.qr(normal(generator, draws, d, d)).Q
    return found


def permutations(generator: torch.Generator, draws: int, n: int) -> Tensor:
    """(draws, n): each a random order of 0 … n − 1, never the one that changes nothing."""
    order = torch.rand(draws, n, generator=generator, dtype=torch.float64).argsort(dim=1)
    unchanged = (order == torch.arange(n)).all(dim=1, keepdim=True)
    return torch.where(unchanged, order.roll(1, dims=1), order)


@torch.no_grad()
def redraw(module: nn.Module, generator: torch.Generator, sigma: float) -> None:
    """Every parameter N(0, σ²), biases and gains too: a demonstration is not to lean on those that begin as 0 or 1."""
    for parameter in module.parameters():
        parameter.copy_(sigma * normal(generator, *parameter.shape))


@torch.no_grad()
def attention_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int = 1,
    query_bias: Tensor | None = None,
    attend: Attend = dot_product,
) -> MultiHeadAttention:
    """Self-attention with W_Q, W_K, W_V as given (they act on columns: q = W_Q x), W_O = I, and no bias but b_Q."""
    d = len(query)
    made = MultiHeadAttention(d, heads, attend=attend).double().requires_grad_(False)
    made.qkv.weight.copy_(torch.cat([query, key, value]))
    made.qkv.bias.zero_()
    if query_bias is not None:
        made.qkv.bias[:d] = query_bias
    made.output.weight.copy_(torch.eye(d))
    made.output.bias.zero_()
    return made


def stretch(matrices_bdd: Tensor) -> Tensor:
    """(b): σ_max, the most by which a matrix stretches a vector."""
    largest: Tensor = torch.linalg.matrix_norm(matrices_bdd, ord=2)
    return largest


def jacobian(last_bd: Tensor, first_bd: Tensor) -> Tensor:
    """(b, d, d): ∂last/∂first of each draw, by automatic differentiation. Draws must not touch each other."""
    rows = [torch.autograd.grad(part.sum(), first_bd, retain_graph=True)[0] for part in last_bd.unbind(dim=1)]
    return torch.stack(rows, dim=1)


def worst(difference: Tensor) -> Tensor:
    """(b): the largest absolute entry of each draw."""
    return difference.abs().flatten(1).amax(dim=1)
