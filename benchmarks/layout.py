"""One linear map, its matrix stored row by row and column by column, for texts of several lengths.

    python benchmarks/layout.py

Six matrices take turns, so that they do not stay in the nearest cache; medians of 40 rounds, the layouts interleaved.
"""

import statistics
import time

import torch
import torch.nn.functional as F


def main() -> None:
    print(f"{torch.get_num_threads()} threads")
    print("| tokens | map | rows, µs | columns, µs | ratio |\n|---|---|---|---|---|")
    for tokens in (8, 25, 60, 256, 1024):
        for into, out in ((384, 1152), (384, 1536), (1536, 384)):
            x = torch.randn(tokens, into)
            rows = [torch.randn(out, into) for _ in range(6)]
            layouts = (rows, [w.T.contiguous().T for w in rows])
            times: tuple[list[float], list[float]] = ([], [])
            with torch.inference_mode():
                for _ in range(40):
                    for kept, matrices in zip(times, layouts, strict=True):
                        start = time.perf_counter()
                        for w in matrices:
                            F.linear(x, w)
                        kept.append((time.perf_counter() - start) / 6e-6)
            a, b = map(statistics.median, times)
            print(f"| {tokens} | {into} → {out} | {a:.0f} | {b:.0f} | {a / b:.2f} |")


if __name__ == "__main__":
    main()
