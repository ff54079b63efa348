"""Greedy texts, or those of beam search, against `transformers.generate` with the same random weights in the same
process.

    python benchmarks/generate.py [--beam N] [--tokens N] [--prompt N] [--vocabulary N] [--repetitions N] [--threads N]

A GPT-2 of 4 layers, 256 wide. Both are given token ids, both keep keys and values, neither may stop early. The two take
turns; a ratio is the median of the peer's time over the median of ours. "ragged" prompts have several lengths, which
both sides pad on the left. The texts must be equal, or the figures would not be of the same work.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

LAYERS, WIDTH, HEADS = 4, 256, 4
Write = Callable[[list[list[int]]], list[list[int]]]


def contestants(vocabulary: int, new: int, beam: int) -> tuple[Write, Write]:
    import transformers

    import heedful
    from heedful.decoding.beam import beam_search
    from heedful.decoding.generate import generate
    from heedful.decoding.settings import Beam, Limits, Sampling
    from heedful.models.next_token import NextToken

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, bos_token_id=0, eos_token_id=0,
        initializer_range=0.1,
    )  # fmt: skip
    peer = transformers.GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as scratch:
        peer.save_pretrained(scratch)
        model: Any = heedful.load(scratch)
    read = NextToken(model.transformer.eval(), "causal")

    def ours(prompts: list[list[int]]) -> list[list[int]]:
        if beam > 1:
            return [texts[0].ids for texts in beam_search(read, prompts, Beam(beam), Limits(new))]
        return [text.ids for text in generate(read, prompts, Sampling(temperature=0), Limits(new))]

    def theirs(prompts: list[list[int]]) -> list[list[int]]:
        n = max(map(len, prompts))
        ids = torch.tensor([[0] * (n - len(prompt)) + prompt for prompt in prompts])
        real = torch.tensor([[0] * (n - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        out = peer.generate(
            input_ids=ids, attention_mask=real, do_sample=False, max_new_tokens=new, eos_token_id=None, pad_token_id=0,
            num_beams=beam, **({"early_stopping": "never"} if beam > 1 else {}),
        )  # fmt: skip
        return [row[n:].tolist() for row in out]

    return ours, theirs


def interleaved(ours: Callable[[], Any], theirs: Callable[[], Any], repetitions: int) -> tuple[float, float]:
    """Median seconds of each; they take turns, so that a slow minute of the machine hits both."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for n in range(repetitions):
        for side in (0, 1) if n % 2 else (1, 0):
            start = time.perf_counter()
            (ours, theirs)[side]()
            times[side].append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--beam", type=int, default=1, help="texts that grow side by side; default: greedy")
    parser.add_argument("--tokens", type=int, default=64, help="new ones for each prompt")
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, help="default: PyTorch's own number")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    ours, theirs = contestants(options.vocabulary, options.tokens, options.beam)
    print(
        f"{torch.get_num_threads()} threads, {options.tokens} new tokens, vocabulary of {options.vocabulary}, "
        f"beam of {options.beam}"
    )
    print("| batch | prompts | tokens/s, ours | transformers | ratio |\n|---|---|---|---|---|")
    for size, ragged in ((1, False), (16, False), (16, True)):
        generator = torch.Generator().manual_seed(size)
        lengths = [
            options.prompt - (row % 8) * options.prompt // 9 if ragged else options.prompt for row in range(size)
        ]
        prompts = [torch.randint(options.vocabulary, (n,), generator=generator).tolist() for n in lengths]
        if ours(prompts) != theirs(prompts):  # also warms both up
            raise SystemExit("the two do not write the same texts")
        a, b = interleaved(lambda p=prompts: ours(p), lambda p=prompts: theirs(p), options.repetitions)
        count = size * options.tokens
        kind = "ragged" if ragged else "equal"
        print(f"| {size} | {kind} | {count / a:.0f} | {count / b:.0f} | **{b / a:.2f}** |", flush=True)


if __name__ == "__main__":
    main()
