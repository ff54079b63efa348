"""What these tests ask of the disk is order, not endurance; the runs that are killed are processes of their own."""

import pytest

from heedful.storage import directories


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "_sync", lambda path: None)
