"""What a mirror in another tool is told of a run, from the files of the run or the study alone.

A mirror is made afterwards, so that it is the same wherever the runs happened and however often they were stopped.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.errors import RequestError
from heedful.report.facts.points import dotted
from heedful.storage.hashing import sha256_of_json
from heedful.storage.runs import Run, begun, kind_of, read_run, read_study, study_of

EXTRA = "install heedful[track]"


@dataclass(frozen=True)
class Mirrored:
    run: Run
    name: str
    study: str | None
    """None for a run that stands alone."""
    setting: str
    state: str
    """done, failed or running."""

    @property
    def settings(self) -> dict[str, Any]:
        """The seed and every value of the recipe that is set, by dotted key."""
        values, seed = dotted(self.run.manifest.recipe), self.run.manifest.seed
        return values if seed is None else {"seed": seed, **values}

    @property
    def fingerprint(self) -> str:
        """Equal for runs whose numbers are equal to the bit: of another run, a mirror would be a mixture."""
        m = self.run.manifest
        facts = {key: getattr(m, key) for key in ("recipe", "seed", "versions", "threads", "device")}
        facts["thresholds"] = m.thresholds or None
        if m.processes != 1:
            facts["processes"] = m.processes
        facts |= {"data": m.data.fingerprints, "model": m.model.fingerprint}
        return sha256_of_json(facts, sort_keys=True)[:16]


def mirrored(directory: Path) -> list[Mirrored]:
    """The run, or every run of the study that has files."""
    place = directory.resolve()
    if kind_of(directory) == "run":
        run, above = read_run(directory), study_of(place)
        return [Mirrored(run, place.name, above.name if above else None, _setting(place.name), _state(run))]
    runs = [
        Mirrored(run, run.directory.name, place.name, entry.setting, _state(run, entry.state))
        for entry, run in begun(read_study(directory))
    ]
    if not runs:
        raise RequestError(f"{directory}: no run of this study has begun, so there is nothing to mirror; run it first.")
    return runs


def _setting(name: str) -> str:
    return name.rpartition("-seed")[0]


def _state(run: Run, in_study: str = "") -> str:
    return "done" if run.done else "failed" if in_study == "failed" else "running"
