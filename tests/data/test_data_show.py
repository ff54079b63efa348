"""`heedful data` and `heedful data show` as a user meets them: in 80 columns, or as facts for programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heedful.cli.data import app
from heedful.data.named import NAMED
from tests.support.small_folder import make_folder


def run(*arguments: str) -> str:
    """In this process; a mistake comes through as the exception that the command line turns into a sentence."""
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = make_folder(tmp_path / "d")
    monkeypatch.setenv("HEEDFUL_DATA", str(found))
    return found


def narrow(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines() if "/" not in line)  # but for paths, however long


def test_the_list_says_where_each_comes_from(folder: Path) -> None:
    shown = run()
    for name in NAMED:
        assert f"\n{name}: " in "\n" + shown
    assert narrow(shown)
    facts = {entry["name"]: entry for entry in json.loads(run("--json"))}
    assert facts["rte"]["from"] == str(folder / "rte")
    assert facts["rte"]["present"] is True
    assert facts["cola"]["from"] == "hub: nyu-mll/glue"
    assert facts["tickets"]["from"] == "in the package"
    assert facts["sick"]["licence"] == "CC BY-NC-SA 3.0"


def test_the_list_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEEDFUL_DATA", raising=False)
    facts = {entry["name"]: entry for entry in json.loads(run("--json"))}
    assert (facts["cfimdb"]["from"], facts["cfimdb"]["present"]) == (
        "HEEDFUL_DATA is not set, and it is not on the hub",
        False,
    )


def test_show_a_named_set(folder: Path) -> None:
    shown = run("show", "rte")
    assert narrow(shown)
    assert "train          22" in shown
    assert "not_entailment" in shown
    assert "- test: the official dev split" in shown
    assert "minilm was tuned on SNLI" in shown
    facts = json.loads(run("show", "rte", "--json"))
    assert {name: split["rows"] for name, split in facts["splits"].items()} == {"train": 22, "dev": 2, "test": 6}
    assert facts["splits"]["test"]["balance"] == {"entailment": 3, "not_entailment": 3}
    assert facts["examples"][0]["pair"].startswith("He spoke")
    assert len(facts["splits"]["train"]["fingerprint"]) == 64
    assert "relatedness" in json.loads(run("show", "sick", "--json"))["what"]
    assert json.loads(run("show", "sick", "--label", "relatedness_score", "--json"))["kind"] == "score"
    assert narrow(run("show", "sick", "--label", "relatedness_score"))


def test_show_a_file(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = "".join(
        f'{i},"a film\n number {i} {"of many words " * 40}\x1b[2J",{"good" if i % 3 else "bad"}\n' for i in range(30)
    )
    path.write_text("id,review,stars\n" + rows + "30,a film,\n")
    shown = run("show", str(path))
    assert narrow(shown)
    assert "\x1b" not in shown
    assert "text 'review', label 'stars'" in shown
    assert "1 of 31 rows have no label" in shown
    facts = json.loads(run("show", str(path), "--text", "review", "--label", "stars", "--json"))
    assert facts["columns"]["all"] == ["id", "review", "stars"]
    assert facts["splits"]["rows"]["balance"] == {"bad": 10, "good": 20}
    assert facts["splits"]["rows"]["words"]["least"] == 125
    assert [e["row"] for e in facts["examples"]] == [1, 2, 3]
    assert facts["kind"] == "classes"


def test_show_what_cannot_be_learned_from(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("text,label\na,x\nb,x\n")
    assert "Every label is 'x'." in run("show", str(path))
    path.write_text("text,label\na,\nb,\n")
    assert "the labels are hidden" in run("show", str(path))
    path.write_text("text,other\na,1\nb,2\n")
    assert "can be predicted, not learned from" in " ".join(run("show", str(path)).split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "sst22"], "did you mean 'sst2'"),
        (["show", "no/such.csv"], "no/such.csv does not exist"),
        (["show", "tickets", "--text", "text"], "remove --text, --pair and --header"),
        (["show", "arithmetic", "--label", "sign"], "without a label 'sign'"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "heedful", "data", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
