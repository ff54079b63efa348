"""Every test here may use the kinds of attention that the tests define."""

import pytest

from heedful.models.kinds import ATTENTION_KINDS, AttentionKind
from tests.support.wirings import synthesizer


@pytest.fixture(autouse=True)
def _further_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION_KINDS, "synthesizer", AttentionKind(synthesizer))
