"""The report of a study of a hundred runs: how long it takes to write and to open, and how large it is.

    pip install playwright
    python benchmarks/report.py [--rounds N]

The studies are those of the tests: a comparison of 20 settings × 5 seeds, and a search of 30 settings × 3 seeds whose
best was run with 5 more; five classes, 1,000 examples, logs of 504 lines. Opening is from the start of the navigation
to the last chart, in headless Chromium with an empty cache, the median of the rounds; "painted" is when the first
text is there, "script" when the charts' library has been read, and what remains is the drawing.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from heedful.report.run import write_run_report
from heedful.report.study import write_reports, write_study_report
from tests.support.large_samples import make_comparison, make_search

WATCH = """
Object.defineProperty(window, "vegaEmbed", {
  configurable: true,
  set(library) { window.read = performance.now(); Object.defineProperty(window, "vegaEmbed", { value: library }); },
});
new MutationObserver(() => {
  if (!window.drawn && document.querySelector("html.drawn")) window.drawn = performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["class"] });
"""
TIMES = "({painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime, script: read, drawn: drawn})"


def seconds(work: Any, *given: Any, **more: Any) -> float:
    start = time.perf_counter()
    work(*given, **more)
    return time.perf_counter() - start


def megabytes(paths: Any) -> float:
    return sum(path.stat().st_size for path in paths) / 1e6


def write(name: str, study: Path) -> None:
    """Once for the imports and the library's script, which are made once in a process; then timed."""
    run = next((study / "runs").iterdir())
    write_run_report(run)
    one, bare = seconds(write_run_report, run), seconds(write_run_report, run, pictures=False)
    alone, everything = seconds(write_study_report, study), seconds(write_reports, study)
    page, pictures = megabytes([study / "report.html"]), megabytes(study.glob("report/*.png"))
    runs = megabytes(p for pattern in ("report.*", "report/*") for p in study.glob(f"runs/*/{pattern}"))
    print(f"{name}: the study's report {alone:.1f} s, with those of its runs {everything:.1f} s", end="; ")
    print(f"a run's with PNGs {one:.2f} s, without {bare:.2f} s")
    count = len(list(study.glob("report/*.png")))
    print(f"{name}: report.html {page:.2f} MB, {count} PNGs {pictures:.1f} MB, the reports of all runs {runs:.0f} MB")


def opening(browser: Any, page: Path, width: int) -> dict[str, float]:
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.add_init_script(WATCH)
    tab.goto(page.as_uri())
    tab.wait_for_function("window.drawn", timeout=60_000)
    found: dict[str, float] = tab.evaluate(TIMES)
    context.close()
    return found


def open_all(pages: dict[str, Path], rounds: int) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: the opening was not timed")
    print("| page | width | painted, ms | script, ms | drawn, ms | slowest, ms |\n|---|---|---|---|---|---|")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        cases = [(name, width) for name in pages for width in (390, 1280)]
        times: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
        for _ in range(rounds):
            for name, width in cases:
                times[name, width].append(opening(browser, pages[name], width))
        browser.close()
    for (name, width), found in times.items():
        middle = [statistics.median(t[key] for t in found) for key in ("painted", "script", "drawn")]
        slowest = max(t["drawn"] for t in found)
        print(f"| {name} | {width} | {' | '.join(f'{ms:.0f}' for ms in middle)} | {slowest:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as base:
        pages = {}
        for name, make in (("comparison", make_comparison), ("search", make_search)):
            study = make(Path(base) / name)
            write(name, study)
            pages[name] = study / "report.html"
            pages["run"] = next((study / "runs").iterdir()) / "report.html"
        open_all(pages, rounds)


if __name__ == "__main__":
    main()
