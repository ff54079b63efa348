"""What something costs, whatever else the machine does meanwhile."""

import multiprocessing
import time

import pytest

from heedful.training.cost import unshared


def compute(seconds: float) -> None:
    """Use this much time of a processor."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def timed(seconds: float) -> float:
    started = time.perf_counter()
    compute(seconds)
    return time.perf_counter() - started


def _compete(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_seconds_in_which_others_compute_do_not_count() -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_compete, args=(60,), daemon=True) for _ in range(3 * multiprocessing.cpu_count())]
    for other in others:
        other.start()
    time.sleep(1)
    try:
        shared = []

        def measure() -> float:
            shared.append(timed(0.5))
            return shared[0]

        found = unshared(measure)
    finally:
        for other in others:
            other.kill()
            other.join()
    assert shared[0] > 0.75  # or the others did not compete
    assert found == pytest.approx(0.5, rel=0.1)


def test_several_threads_do_not_make_it_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"wall": iter((10.0, 12.0)), "computing": iter((0.0, 7.0))}
    monkeypatch.setattr("time.perf_counter", lambda: next(clocks["wall"]))
    monkeypatch.setattr("time.process_time", lambda: next(clocks["computing"]))
    assert unshared(lambda: 1.5) == 1.5


def test_what_was_not_measured_stays_so() -> None:
    assert unshared(lambda: None) is None
