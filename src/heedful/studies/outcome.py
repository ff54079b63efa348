"""What a study leaves when its runs are done: the chosen setting, the table, the statistics, and the chosen model."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from heedful.checkpoints.directory import MODEL_FILES, MODEL_FOLDERS
from heedful.checkpoints.translators.directory import FILES, FOLDERS
from heedful.recipes.reading import make_recipe
from heedful.storage.directories import link_or_copy, replace_directory
from heedful.storage.runs import finished_run
from heedful.storage.shared import SharedStore
from heedful.storage.statistics_record import Statistics
from heedful.storage.study_record import StudyRecord
from heedful.storage.whole import write_json
from heedful.studies.baselines import Baselines, data_key, whole_data
from heedful.studies.kinds.protocol import SoFar
from heedful.studies.parts import StudyPlan, choose, direction
from heedful.studies.statistics import ranked_settings, write_statistics
from heedful.studies.table import write_tables
from heedful.training.assembly import read_source


def conclude(
    plan: StudyPlan, so_far: SoFar, study: dict[str, Any], baselines: Baselines, store: SharedStore
) -> Statistics:
    """Choose on dev among the settings that the kind of study names and the baselines that are models, if it chooses;
    write what that leads to, and complete `study`. Return what statistics.json holds, which is empty if there is
    nothing to judge."""
    directory, rows, kind = so_far.directory, so_far.rows, plan.kind
    recipes = {s["name"]: make_recipe(s["recipe"]) for s in (*study["settings"], *study.get("final_settings", []))}
    ranked = ranked_settings(rows)
    recipe = recipes[ranked[0]] if ranked else plan.settings[0].recipe
    whole = replace(plan, settings=(replace(plan.settings[0], recipe=recipe),))
    evaluator = whole_data(whole, store)[data_key(recipe)].evaluator
    same_data = [r for r in recipes.values() if data_key(r) == data_key(recipe)]
    compared_with = same_data[-1] if "final_settings" not in study else recipe
    scored = {row["setting"] for row in rows if row.get("dev_mean") is not None}
    names = {s.name for s in kind.candidates([s for s in so_far.compared if s.name in scored])}
    metrics = {m.name: m for m in (*evaluator.METRICS, *evaluator.metrics)}  # those of these data last
    metric = next((metrics[row["metric"]] for row in rows if "metric" in row), None)
    table = [*rows, *(baselines.rows(compared_with, plan.seeds[0], metric) if metric else [])]
    best = choose([row for row in table if row["setting"] in names or row["baseline"]]) if kind.chooses else None
    study.pop("chosen", None)  # an earlier sitting's
    if best is None:
        shutil.rmtree(directory / "best", ignore_errors=True)
    else:
        study["chosen"] = {"setting": best["setting"], "seed": _best_seed(so_far, best)}
    values = baselines.values(compared_with, plan.seeds[0], "tested")
    floors = baselines.values(compared_with, plan.seeds[0], "floor")
    chosen = None if best is None else str(best["setting"])
    answers = None
    if best is not None and study["chosen"]["seed"] is None:
        answers = read_source(compared_with, plan.seeds[0], store).evaluator.baselines().evaluate
    further = evaluator.study_statistics
    record = StudyRecord.model_validate(study)
    options = {"chosen": chosen, "chooses": kind.chooses, "floors": floors, **kind.tests(so_far.look)}
    options["entries"] = partial(kind.statistics, directory, record)
    content = write_statistics(directory, record, table, metrics, values, further, answers, **options)
    statistics = Statistics.model_validate(content)
    for row in table:
        expected = statistics.about(row["setting"]).expected
        if expected:
            row |= {f"{statistics.split}_low": expected.low, f"{statistics.split}_high": expected.high}
    study["table"] = table
    write_tables(directory, table, chosen)
    write_json(directory / "study.json", study)
    if best is not None:
        _keep_best(directory, best, study["chosen"]["seed"])
    return statistics


def _best_seed(so_far: SoFar, best: Mapping[str, Any]) -> int | None:
    """Of the seeds of the chosen setting, the best on dev; None for a baseline that is no run."""
    setting = next((s for s in so_far.compared if s.name == best["setting"]), None)
    if setting is None:
        return None
    folder = so_far.directory / "runs"
    runs = {seed: finished_run(folder / f"{setting.name}-seed{seed}") for seed in so_far.plan.seeds_of(setting)}
    scores = {seed: run.scores("dev").number(best["metric"]) for seed, run in runs.items() if run is not None}
    known = {seed: direction(best) * score for seed, score in scores.items() if score is not None}
    return max(known, key=lambda seed: known[seed])


def _keep_best(directory: Path, best: Mapping[str, Any], seed: int | None) -> None:
    """The chosen model, as a directory of its own."""
    folder = best["model_directory"] if seed is None else f"runs/{best['setting']}-seed{seed}/model"

    def copy(into: Path) -> None:
        shutil.copytree(directory / folder, into, copy_function=_copied, dirs_exist_ok=True)

    replace_directory(directory / "best", copy, MODEL_FILES | FILES, MODEL_FOLDERS | FOLDERS)


def _copied(source: str, target: str) -> str:
    """What the runs share, such as a body that does not move, is not copied but linked again."""
    if Path(source).stat().st_nlink > 1:
        link_or_copy(Path(source), Path(target))
    else:
        shutil.copy2(source, target)
    return target
