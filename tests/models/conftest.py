"""Every test here may use the kinds of attention that the tests define."""

import pytest
from wirings import synthesizer

from heedful.models.kinds import ATTENTION_KINDS, AttentionKind


@pytest.fixture(autouse=True)
def _further_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION_KINDS, "synthesizer", AttentionKind(synthesizer))
