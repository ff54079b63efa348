"""The section of a study's report that lists what was checked, and whether it passed."""

from heedful.report.facts.checks import checks
from heedful.report.facts.comparison import Comparison
from heedful.report.page.pieces import Column, Row, Section, Table
from heedful.report.page.pieces import section as make_section

_SIGNS = {"passed": "✓ passed", "warns": "! warns", "unknown": "? not known"}


def checked(c: Comparison) -> Section | None:
    made = checks(c)
    columns = (Column("check"), Column("state"), Column("what was found", long=True))
    rows = tuple(Row((m.name, _SIGNS[m.state], m.sentence), "warning" if m.state == "warns" else "") for m in made)
    return make_section("checks", "Checks", [Table("What was checked", columns, rows)] if rows else [])
