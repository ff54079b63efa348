"""`heedful probe bias` as a person uses it: on a study, a model, files of pairs and texts, a masked-word model."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from heedful import RequestError, probe_bias
from heedful.cli.main import main
from heedful.probes.subjects import find_subjects
from heedful.studies.plan import plan_comparison
from heedful.studies.study import run_study
from tests.support.stereotype_samples import STEREOSET
from tests.support.training_samples import write_csv, write_data, write_tiny

PAIRS = [
    (f"he is {what} {thing}", f"she is {what} {thing}", thing, what)
    for thing in ("film", "story", "cast", "score")
    for what in ("a gem", "dull and loud", "clever")
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two settings (the second over two seeds) with TF-IDF, and a file of pairs."""
    base = tmp_path_factory.mktemp("probe")
    changes = {"training": {"max_length": 16, "epochs": 2, "lr": 3e-3}}
    plan = plan_comparison(write_data(base / "data"), [str(write_tiny(base))], ["frozen", "full"], (0, 1), changes)
    run_study(plan, base / "study", quiet=True)
    write_csv(base / "pairs.csv", ("a", "b", "thing", "said"), PAIRS)
    return base


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["heedful", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_a_study_is_probed_with_all_its_settings_and_seeds(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = place / "pairs.csv", tmp_path / "out"
    options = ("--pairs", pairs, "--factors", "thing,said", "--groups", "men,women", "--out", out)
    assert run(monkeypatch, "probe", "bias", place / "study", *options) == 0
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= max(80, len(str(out / "report.html")))
    facts = json.loads((out / "bias.json").read_text())
    (one,) = facts["sets"]
    assert one["factors"] == {"thing": 4, "said": 3}
    subjects = one["subjects"]
    assert {name: found["seeds"] for name, found in subjects.items()} == {
        "study: tiny-frozen": ["0"],
        "study: tiny-full": ["0", "1"],
        "study: tfidf": [""],
    }
    assert [subjects[name]["random"] for name in subjects] == [False, True, False]
    with (out / "pairs" / "set-1.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab"))
    column = [float(row["study: tiny-full: good"]) for row in rows]
    assert len(rows) == len(PAIRS)
    assert sum(column) / len(column) == pytest.approx(subjects["study: tiny-full"]["gap"]["mean"], abs=1e-6)
    words = (out / "report.md").read_text() + said.out
    for found in subjects.values():
        assert f"{found['gap']['mean']:+.3f}".replace("-", "−")[:5] in words
    page = (out / "report.html").read_text()
    assert all(name in page for name in subjects)
    assert len(one["comparisons"]) == 3
    assert run(monkeypatch, "probe", "bias", place / "study", *options) == 0  # the same again takes its place
    assert json.loads((out / "bias.json").read_text()) == facts


def test_one_model_and_its_default_place(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = place / "study" / "best"
    for expected in ("runs/bias-best", "runs/bias-best", "runs/bias-best-2"):
        extra = ("--label", "bad") if expected.endswith("2") else ()
        assert run(monkeypatch, "probe", "bias", model, "--pairs", place / "pairs.csv", *extra) == 0
        assert f"{expected}/report.html" in capsys.readouterr().out
    facts = json.loads((tmp_path / "runs/bias-best-2/bias.json").read_text())
    assert facts["sets"][0]["subjects"]["study/best"]["gap"]["outcome"] == "bad"


def test_texts_of_ones_own_are_swapped(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = write_csv(tmp_path / "texts.csv", ("review",), [("his film is a gem",), ("a bore",), ("she is clever",)])
    out = tmp_path / "out"
    assert run(monkeypatch, "probe", "bias", place / "study" / "best", "--pairs", texts, "--swap", "--out", out) == 0
    assert "1 of 3 texts have no word that the rules swap" in capsys.readouterr().err
    rows = (out / "pairs" / "set-1.tsv").read_text().splitlines()
    assert "his film is a gem\ther film is a gem" in rows[1]
    assert "he is clever\tshe is clever" in rows[2]


def test_a_masked_word_model_says_which_text_is_the_likelier(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crows = tmp_path / "crows_pairs" / "crows_pairs_anonymized.csv"
    crows.parent.mkdir()
    header = ("sent_more", "sent_less", "stereo_antistereo", "bias_type", "anon_writer")
    rows = [(b, a, "stereo", "gender" if i % 2 else "age", f"w{i % 4}") for i, (a, b, *_) in enumerate(PAIRS)]
    write_csv(crows, header, rows)
    monkeypatch.setenv("HEEDFUL_DATA", str(tmp_path))
    out = tmp_path / "out"
    assert run(monkeypatch, "probe", "bias", place / "tiny", "--pairs", "crows-pairs", "--out", out) == 0
    assert "50% is no preference" in " ".join(capsys.readouterr().out.split())
    found = json.loads((out / "bias.json").read_text())["sets"][0]["subjects"]["tiny"]
    assert found["unit"] == "preference"
    report = (out / "report.md").read_text()
    assert f"| {50 + 100 * found['gap']['mean']:.1f}% |" in report  # a share of pairs, not a change
    assert "mean change in log-likelihood" not in (out / "report.html").read_text()
    assert {row["level"] for row in found["by"]["bias_type"]} == {"age", "gender"}
    with (out / "pairs" / "crows-pairs.tsv").open(encoding="utf-8", newline="") as file:
        each = [float(row["tiny: preference"]) for row in csv.DictReader(file, dialect="excel-tab")]
    assert set(each) <= {-0.5, 0.0, 0.5}
    assert found["gap"]["mean"] == pytest.approx(sum(each) / len(each))
    stereoset = tmp_path / "dev.json"
    stereoset.write_text(json.dumps(STEREOSET))
    facts = probe_bias(place / "tiny", str(stereoset), out=tmp_path / "stereo")
    table = facts["sets"][0]["subjects"]["tiny"]["stereoset"]
    assert table[0]["items"] == 3  # one asks what may follow, which this model cannot say
    assert "Language-model score" in (tmp_path / "stereo" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "name a model, a run or a study"),
        (("{study}", "--pairs", ""), "--pairs is empty"),
        (("{study}", "--pairs", "genrated"), "did you mean 'generated'"),
        (("{study}", "--pairs", "{pairs}", "--factors", "thin"), "no column 'thin'"),
        (("{study}", "--pairs", "{pairs}", "--label", "great"), "has no class 'great'; it has bad, good"),
        (("{study}", "--pairs", "{pairs}", "--of", "pairs"), "was trained on single texts. Remove --of"),
        (("{study}", "--pairs", "{pairs}", "--groups", "men"), "name two"),
        (("{study}", "--pairs", "{pairs}", "--text", "a"), "unless --swap is given"),
        (("{study}", "--factors", "thing"), "--factors is not for generated"),
        (("{study}", "{study}", "--pairs", "{pairs}"), "is named 2 times"),
        (("{base}/nowhere", "--pairs", "{pairs}"), "no such directory"),
        (("{base}/tiny", "--pairs", "{pairs}", "--label", "good"), "only for classifiers"),
        (("{study}", "--pairs", "{base}/missing.csv"), "missing.csv"),
        (("{study}", "--pairs", "{pairs}", "--factors", "seed"), "'seed' has a meaning of its own"),
        (("{study}", "--pairs", "{pairs}", "--by", "pair"), "'pair' has a meaning of its own"),
        (("{study}", "--pairs", "{pairs}", "--out", "{base}/data"), "not heedful's and would be lost"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: tuple[str, ...],
    reason: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {"study": place / "study", "base": place, "pairs": place / "pairs.csv"}
    assert run(monkeypatch, "probe", "bias", *(one.format(**values) for one in arguments)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("heedful: ")
    assert re.search(re.escape(reason), said), said
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_one_model_of_a_random_setting(place: Path) -> None:
    (one,) = find_subjects(place / "study" / "runs" / "tiny-full-seed1")
    assert (one.name, one.random, [seed for seed, _ in one.runs]) == ("tiny-full-seed1", True, ["1"])


def test_a_run_without_a_model_is_said(place: Path, tmp_path: Path) -> None:
    study = shutil.copytree(place / "study", tmp_path / "study")
    shutil.rmtree(study / "runs" / "tiny-full-seed1" / "model")
    said: list[str] = []
    facts = probe_bias(study, str(place / "pairs.csv"), say=said.append)
    assert f"{study}: of 2 runs of tiny-full, 1 have a model; the others are left out." in said
    assert facts["sets"][0]["subjects"]["study: tiny-full"]["seeds"] == ["0"]


def test_a_place_that_holds_something_else_is_passed_over(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "bias-best").mkdir(parents=True)
    (tmp_path / "runs" / "bias-best" / "bias.json").write_text("[1")
    assert run(monkeypatch, "probe", "bias", place / "study" / "best", "--pairs", place / "pairs.csv") == 0
    assert "runs/bias-best-2/report.html" in capsys.readouterr().out


def test_what_is_not_ours_is_not_lost(place: Path, tmp_path: Path) -> None:
    model, pairs, out = place / "study" / "best", str(place / "pairs.csv"), tmp_path / "out"
    (out / "pairs").mkdir(parents=True)
    (out / "pairs" / "mine.tsv").write_text("kept")
    with pytest.raises(RequestError, match="contains the results of a different probe"):
        probe_bias(model, pairs, out=out)
    shutil.rmtree(out)
    probe_bias(model, pairs, out=out)
    with pytest.raises(RequestError, match="contains the results of a different probe"):
        probe_bias(model, pairs, label="bad", out=out)
    (out / "pairs" / "mine.tsv").write_text("kept")
    with pytest.raises(RequestError, match=r"mine.tsv: is not heedful's and would be lost"):
        probe_bias(model, pairs, out=out)
    (out / "pairs" / "mine.tsv").rename(out / "report" / "photo.png")
    with pytest.raises(RequestError, match=r"photo.png: is not heedful's and would be lost"):
        probe_bias(model, pairs, out=out)
    assert (out / "report" / "photo.png").read_text() == "kept"


def test_models_that_are_called_alike_can_be_told_apart(place: Path) -> None:
    names = [find_subjects(place / "study" / folder)[0].name for folder in ("best", "baselines/tfidf")]
    assert names == ["study/best", "study/baselines/tfidf"]


def test_the_sets_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "probe", "bias", "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "generated: men and women" in lines[0]
