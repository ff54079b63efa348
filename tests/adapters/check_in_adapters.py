"""Load directories with the `adapters` library, run them, and compare with the answers expected: the other way round.

For the library's own environment (see make_goldens.py). Prints one JSON object; the exit status is 1 if the largest
error is over 1e-5, if a weight the library wanted was missing, or if there was nothing to compare.

    python check_in_adapters.py BASE --adapter DIR [--adapter DIR ...] --answers FILE
        [--fusion DIR] [--head DIR] [--compose '{"fuse": ["a", "b"]}'] [--case NAME]
    python check_in_adapters.py --goldens goldens        # every case of cases.json

The answers hold input_ids, attention_mask, maybe token_type_ids, and states and/or logits; with --case these two are
<case>/states and <case>/logits. A composition is a name, or {"stack": [...]}, {"fuse": [...]},
{"average": [...], "weights": [...], "normalize": true}, nested; without one, the last adapter's name. Logits
are those of the head of --head, or of the fusion's directory, or of the last adapter's.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from adapters import AutoAdapterModel
from adapters.composition import Average, Fuse, Stack
from safetensors.torch import load_file

TOLERANCE = 1e-5


def compose(setup: Any) -> Any:
    if isinstance(setup, str):
        return setup
    if "stack" in setup:
        return Stack(*[compose(child) for child in setup["stack"]])
    if "fuse" in setup:
        return Fuse(*[compose(child) for child in setup["fuse"]])
    children = [compose(child) for child in setup["average"]]
    return Average(*children, weights=setup.get("weights"), normalize_weights=setup.get("normalize", True))


def head_name(directory: str, otherwise: str) -> str:
    """The name the library gives the head of a directory: a static head has none, and gets its adapter's."""
    return json.loads((Path(directory) / "head_config.json").read_text())["name"] or otherwise


def load(
    base: str, directories: list[str], fusion: str | None, head: str | None
) -> tuple[Any, list[str], str | None, Any]:
    """The model, its adapters' names, its head, and the names of weights that were not found."""
    model = AutoAdapterModel.from_pretrained(base)
    info: dict[str, Any] = {"missing_keys": [], "unexpected_keys": []}
    names, active, missing = [], None, []
    for directory in directories:
        with_head = (Path(directory) / "head_config.json").exists()
        name = model.load_adapter(directory, with_head=with_head, use_safetensors=True, loading_info=info)
        missing += info["missing_keys"]
        names.append(name)
        if with_head:
            active = head_name(directory, name)
    if fusion:
        with_head = (Path(fusion) / "head_config.json").exists()
        model.load_adapter_fusion(fusion, with_head=with_head, use_safetensors=True)
        active = head_name(fusion, names[-1]) if with_head else active
    if head:
        active = head_name(head, names[-1])
        if active not in model.heads:
            model.load_head(head, use_safetensors=True)
    return model.eval(), names, active, missing


def check(
    base: str,
    directories: list[str],
    answers: dict[str, torch.Tensor],
    *,
    case: str = "",
    fusion: str | None = None,
    head: str | None = None,
    setup: Any = None,
) -> dict[str, Any]:
    model, names, active, missing = load(base, directories, fusion, head)
    model.set_active_adapters(compose(setup or names[-1]))
    prefix = f"{case}/" if case else ""
    has_logits = f"{prefix}logits" in answers
    model.active_head = active if has_logits else None
    states: list[torch.Tensor] = []
    model.base_model.register_forward_hook(lambda module, args, out: states.append(out[0]))
    batch = {k: v for k, v in answers.items() if k in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        out = model(**batch)
    found = {"states": states[0], **({"logits": out.logits} if has_logits else {})}
    errors = {
        what: (value - answers[prefix + what]).abs().max().item()
        for what, value in found.items()
        if prefix + what in answers
    }
    return {
        "ok": bool(errors) and not missing and all(e <= TOLERANCE for e in errors.values()),
        "errors": errors,
        "missing": missing,
    }


def check_goldens(root: Path) -> dict[str, Any]:
    cases = json.loads((root / "cases.json").read_text())["cases"]
    answers = {family: load_file(root / family / "answers.safetensors") for family in {c["family"] for c in cases}}
    results = {}
    for case in cases:
        results[f"{case['family']}/{case['name']}"] = check(
            str(root / case["base"]),
            [str(root / folder) for folder in case["adapters"].values()],
            answers[case["family"]],
            case=case["name"],
            fusion=case["fusion"] and str(root / case["fusion"]),
            head=case["head"] and str(root / case["head"]),
            setup=case["composition"],
        )
    bad = {name: result for name, result in results.items() if not result["ok"]}
    largest = max(error for result in results.values() for error in result["errors"].values())
    return {"ok": not bad, "cases": len(results), "largest": largest, "bad": bad}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run adapter directories in the adapters library.")
    parser.add_argument("base", nargs="?")
    parser.add_argument("--adapter", action="append", default=[])
    parser.add_argument("--answers")
    parser.add_argument("--fusion")
    parser.add_argument("--head")
    parser.add_argument("--compose", help="a name, or JSON")
    parser.add_argument("--case", default="")
    parser.add_argument("--goldens", type=Path)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    logging.getLogger("adapters").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if given.goldens:
        result = check_goldens(given.goldens)
    elif not (given.base and given.adapter and given.answers):
        parser.error("a base, at least one --adapter, and --answers")
    else:
        setup = json.loads(given.compose) if (given.compose or "").startswith("{") else given.compose
        result = check(
            given.base,
            given.adapter,
            load_file(given.answers),
            case=given.case,
            fusion=given.fusion,
            head=given.head,
            setup=setup,
        )
    print(json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
