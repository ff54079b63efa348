"""`heedful inspect`: the parts of a model and where each came from."""

import dataclasses
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli.inspect_adapters import adapter_lines, describe_adapters, describe_fusions, inspect_adapter, span
from heedful.cli.inspect_translators import describe_translator, lines_below, title
from heedful.cli.show import field, print_json, size
from heedful.errors import RequestError

if TYPE_CHECKING:
    from heedful.checkpoints.directory import Checkpoint


def inspect(
    model: Annotated[str | None, typer.Argument(help="Directory, hub id, or name from `heedful models`.")] = None,
    shape: Annotated[str | None, typer.Option(help="Named shape instead of a model: sizes without weights.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None,
    body_only: Annotated[
        bool, typer.Option("--body-only", help="Read only the body, whatever heads there are.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON with every tensor.")] = False,
) -> None:
    """Show a model's shape, parameter counts, memory, labels, tokenizer, and the source of each tensor."""
    if (model is None) == (shape is None):
        raise RequestError("inspect takes either a model or --shape NAME.")
    if model is not None and any(
        shown(model, revision, as_json) for shown in (_inspect_tfidf, _inspect_adapter, _inspect_translator)
    ):
        return
    checkpoint, source = _load_checkpoint(model, shape, revision, body_only)
    facts = describe(checkpoint, source)
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)


def _inspect_tfidf(model: str, revision: str | None, as_json: bool) -> bool:
    """Print a TF-IDF model. Return False if it is not one."""
    from heedful.checkpoints.finding import find
    from heedful.checkpoints.tfidf import is_tfidf, read_tfidf

    directory = find(model, revision)
    if not is_tfidf(directory):
        return False
    tfidf = read_tfidf(directory)
    words, weights = len(tfidf.features.idf), int(tfidf.linear.weight_kf.size + tfidf.linear.bias_k.size)
    stored = sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
    facts = {
        "source": model,
        "family": "tfidf",
        "labels": list(tfidf.labels),
        "of_pairs": tfidf.pairs,
        "vocabulary": words,
        "strength": tfidf.strength,
        "parameters": {"total": weights, "trainable": weights},
        "memory": {"weight_bytes": stored},
    }
    if as_json:
        print_json(facts)
        return True
    reads = "pairs of texts" if tfidf.pairs else "texts"
    print(f"{model}: TF-IDF with a linear model (strength {tfidf.strength:g}), for {reads}")
    print(f"parameters  {weights:,}")
    print(f"vocabulary  {words:,} words and neighbours")
    print(f"labels      {', '.join(tfidf.labels) or 'none (predicts a score)'}")
    print(f"on disk     {size(stored)}")
    return True


def _inspect_adapter(model: str, revision: str | None, as_json: bool) -> bool:
    """Print a stored adapter or fusion. Return False if it is not one."""
    from heedful.checkpoints.adapter_facts import is_adapter
    from heedful.checkpoints.finding import find

    directory = find(model, revision)
    if not is_adapter(directory):
        return False
    inspect_adapter(directory, model, as_json)
    return True


def _inspect_translator(model: str, revision: str | None, as_json: bool) -> bool:
    """Print a translator. Return False if it is not one."""
    from heedful.checkpoints.finding import find
    from heedful.checkpoints.translators import is_translator, read_translator

    directory = find(model, revision)
    if not is_translator(directory):
        return False
    facts = describe_translator(read_translator(directory), model)
    if as_json:
        print_json(facts)
        return True
    print(title(facts))
    _print_parts(facts["tensors"])
    for line in lines_below(facts):
        print(line)
    return True


def _load_checkpoint(
    model: str | None, shape: str | None, revision: str | None, body_only: bool
) -> "tuple[Checkpoint, str]":
    from heedful.checkpoints.directory import Checkpoint, read_model
    from heedful.checkpoints.finding import find

    if model is not None:
        return read_model(find(model, revision), body_only=body_only), model
    import torch

    from heedful.checkpoints.families import family_of
    from heedful.models.shape import NAMED_SHAPES
    from heedful.models.transformer import Transformer

    if shape not in NAMED_SHAPES:
        raise RequestError(f"unknown shape {shape!r}. Choose from {', '.join(NAMED_SHAPES)}.")
    with torch.device("meta"):
        transformer = Transformer(NAMED_SHAPES[shape])
    sources = dict.fromkeys(transformer.state_dict(), "shape only")
    return Checkpoint(transformer, family_of(transformer.shape).name, sources=sources), f"shape {shape}"


def describe(checkpoint: "Checkpoint", source: str) -> dict[str, Any]:
    """Return everything that `inspect` knows, as plain data."""
    from heedful.models.inventory import take_inventory
    from heedful.models.shape import main_head

    heads = checkpoint.transformer.head_shapes
    inventory = take_inventory(checkpoint.transformer)
    own = sum(part.count for part in inventory.parts if part.name.startswith(("adapters.", "fusions.")))
    tokenizer = checkpoint.tokenizer
    return {
        "source": source,
        "family": checkpoint.family,
        "shape": dataclasses.asdict(checkpoint.transformer.shape),
        "heads": {name: dataclasses.asdict(head) for name, head in heads.items()},
        "labels": list(heads[main].labels) if (main := main_head(heads)) else [],
        "tokenizer": tokenizer
        and {
            "kind": tokenizer.kind,
            "size": tokenizer.size,
            "lowercase": tokenizer.lowercase,
            "max_length": tokenizer.max_length,
        },
        "adapters": describe_adapters(checkpoint.transformer),
        "fusions": describe_fusions(checkpoint.transformer),
        "parameters": {
            "total": inventory.total,
            "trainable": inventory.trainable,
            **({"adapters": own} if own else {}),
        },
        "memory": {"weight_bytes": inventory.weight_bytes, "training_bytes": inventory.training_bytes},
        "tensors": [
            {**dataclasses.asdict(part), "shape": list(part.shape), "source": checkpoint.sources[part.name]}
            for part in inventory.parts
        ],
        "unread": list(checkpoint.unread),
    }


def _print_parts(tensors: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    rows = rows_of(tensors)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    headers = ("part", "shape", "parameters")
    for header in headers:
        table.add_column(header, justify="right" if header == "parameters" else "left", no_wrap=True)
    table.add_column("from", no_wrap=True, style="dim")
    console = Console(highlight=False)
    room = (
        console.width - 8 - sum(max(len(s) for row in [headers, *rows] for s in row[i].split("\n")) for i in range(3))
    )
    for *cells, origin in rows:
        table.add_row(*cells, wrap_dotted(origin, max(room, 16)))
    with console.capture() as drawn:  # we print it: rich would end the program if the reader is gone
        console.print(table)
    print(drawn.get(), end="")


def _print_facts(facts: dict[str, Any]) -> None:
    s, tokenizer, memory = facts["shape"], facts["tokenizer"], facts["memory"]
    files = sorted({t["source"].split(": ")[0] for t in facts["tensors"]})
    print(f"{facts['source']}: {facts['family']}, {s['layers']} layers of width {s['width']}, {s['heads']} heads")
    _print_parts(facts["tensors"])
    count = facts["parameters"]
    print(f"parameters  {count['total']:,} in total, {count['trainable']:,} trainable")
    if "adapters" in count:
        what = "adapters and fusions" if facts["fusions"] else "adapters"
        print(f"            {count['adapters']:,} of them in {what}")
    print(
        f"memory      {size(memory['weight_bytes'])} of weights; {size(memory['training_bytes'])} to train with AdamW"
    )
    print("            (gradients and moments included, activations not)")
    for line in adapter_lines(facts, s["width"]):
        print(line)
    for name, head in facts["heads"].items():
        if head["labels"]:
            print(f"labels      {', '.join(head['labels'])}" + (f" ({name})" if name != "classify" else ""))
    if tokenizer:
        case = {True: ", lower-casing", False: ", case kept", None: ""}[tokenizer["lowercase"]]
        print(f"tokenizer   {tokenizer['kind']}, {tokenizer['size']:,} entries{case}")
    else:
        print("tokenizer   none")
    print(field("tensors", f"{len(facts['tensors'])}, from {', '.join(files)}"))
    if facts["unread"]:
        print(f"unread      {', '.join(facts['unread'])}")


@dataclasses.dataclass
class _Module:
    tensors: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    parts: "dict[str, _Module]" = dataclasses.field(default_factory=dict)

    def alike(self) -> Any:
        """Equal for modules with the same parts of the same shapes."""
        own = tuple((t["name"].rpartition(".")[2], tuple(t["shape"])) for t in self.tensors)
        return own, tuple((name, part.alike()) for name, part in self.parts.items())


def rows_of(tensors: list[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return a line for each module, indented under its parents. Equal layers and adapters are shown once, as {i} and
    {name}."""
    whole = _Module()
    for t in tensors:
        module = whole
        for name in t["name"].split(".")[:-1]:
            module = module.parts.setdefault(name, _Module())
        module.tensors.append(t)
    return _rows_below(whole, (), {})


def _rows_below(module: _Module, path: tuple[str, ...], once: dict[str, str]) -> list[tuple[str, str, str, str]]:
    """`once`: the placeholder for each part that represents several."""
    rows: list[tuple[str, str, str, str]] = []
    repeated = "{i}" if all(name.isdigit() for name in module.parts) else "{name}" if path == ("adapters",) else ""
    for names in _equal_parts(module) if repeated else [[name] for name in module.parts]:
        part, label, placeholders = module.parts[names[0]], names[0], once
        if len(names) > 1:
            listed = span([int(name) for name in names]) if repeated == "{i}" else ", ".join(names)
            label, placeholders = f"{repeated} = {listed}, each", {**once, names[0]: repeated}
        sizes = ["×".join(map(str, t["shape"])) or "1" for t in part.tensors]
        shapes = " +\n".join(" + ".join(sizes[at : at + 2]) for at in range(0, len(sizes), 2))
        parameters = f"{sum(t['count'] for t in part.tensors):,}" if part.tensors else ""
        origin = _stored_names(part.tensors, placeholders) if part.tensors else ""
        indent = " " * len(path)
        rows.append((indent + wrap_dotted(label, 40).replace("\n", f"\n{indent}  "), shapes, parameters, origin))
        rows += _rows_below(part, (*path, names[0]), placeholders)
    return rows


def _equal_parts(module: _Module) -> list[list[str]]:
    groups: dict[Any, list[str]] = {}
    for name, part in module.parts.items():
        groups.setdefault(part.alike(), []).append(name)
    return list(groups.values())


def _stored_names(module_tensors: list[dict[str, Any]], placeholders: dict[str, str]) -> str:
    """Join the stored names of a module's tensors: a.{query,key,value}, for both weight and bias."""
    sources = [t["source"] for t in module_tensors]
    if not all(": " in s for s in sources):
        return ", ".join(sorted(set(sources)))
    names = [n.split(".") for s in sources for n in s.split(": ", 1)[1].split(" + ")]
    if len({len(n) for n in names}) > 1:
        return ", ".join(".".join(n) for n in names)
    phrase = []
    for segment in zip(*names, strict=True):
        choices = list(dict.fromkeys(segment))
        phrase.append(choices[0] if len(choices) == 1 else "{" + ",".join(choices) + "}")
    if phrase[-1] == "{weight,bias}":
        phrase.pop()
    for name, placeholder in placeholders.items():
        if name in phrase:  # only the first: later parts may have numbers too
            phrase[phrase.index(name)] = placeholder
    return ".".join(phrase)


def wrap_dotted(name: str, width: int) -> str:
    """Break a dotted name into lines, only after dots and commas."""
    lines = [""]
    for piece in re.findall(r"[^.,]+[.,]?", name):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)
