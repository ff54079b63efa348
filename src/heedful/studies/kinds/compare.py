"""`heedful compare`, and a recipe without [study]: every setting with every seed, and the best on dev is chosen."""

from heedful.studies.kinds.protocol import StudyKind
from heedful.studies.parts import SettingPlan, StudyPlan


class Compare(StudyKind):
    name = "compare"

    def settings(self, bases: tuple[SettingPlan, ...], seeds: tuple[int, ...]) -> StudyPlan:
        return StudyPlan(bases, seeds, self)


STUDY = Compare
