"""`heedful data shard`: running text as token ids on disk, to pretrain on again and again."""

from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.cli.show import print_json, size


def shard(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Text (.gz too), JSONL, Parquet, or a named corpus.")
    ],
    out: Annotated[Path, typer.Option(help="The corpus directory; if it was begun before, it is gone on with.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="Take the tokenizer of this model: a directory, hub id or name.", metavar="MODEL")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Or train one on the text: wordpiece (the default) or bpe.")] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Entries of a tokenizer that is trained; default: 8000.", min=100)
    ] = None,
    separator: Annotated[
        str, typer.Option(help="What a document is: line, blank-line, file, or the line between two; auto: see docs.")
    ] = "auto",
    text: Annotated[str | None, typer.Option(help="The key of JSONL, or column of Parquet, with the text.")] = None,
    deduplicate: Annotated[bool, typer.Option("--deduplicate", help="Keep the first of equal documents only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same facts for programs.")] = False,
) -> None:
    """Tokenise text into shards that are mapped into memory; then a recipe names the directory as data.corpus."""
    from heedful.objectives.sharding import shard_corpus

    def watch(counts: Any) -> None:
        of = "document" if counts["documents"] == 1 else "documents"
        typer.echo(f"{counts['documents']:,} {of}, {counts['tokens']:,} tokens", err=True)

    facts = shard_corpus(
        files, out, tokenizer, kind, vocabulary, separator, text, deduplicate, None if as_json else watch
    )
    if as_json:
        print_json(facts)
        return
    asked = facts["vocabulary_asked"]
    fewer = f"; {asked:,} were asked for, and the text gives no more" if asked > facts["vocabulary"] else ""
    lines = {
        "corpus": str(out),
        "documents": f"{facts['documents']:,}",
        "sentences": f"{facts['sentences']:,}",
        "tokens": f"{facts['tokens']:,} ({facts['bytes'] / facts['tokens']:.2f} bytes each)",
        "text": size(facts["bytes"]),
        "vocabulary": f"{facts['vocabulary']:,}, of which {facts['unused']:,} do not occur{fewer}",
        "unknown": f"{100 * facts['unknown_share']:.3f} % of the tokens",
        "lengths": ", ".join(f"{point} {value:,}" for point, value in facts["lengths"].items()) + " tokens a document",
        "left out": f"{facts['duplicates']:,} duplicates, {facts['without_tokens']:,} without a token, "
        f"{facts.get('without_text', 0):,} rows without text",
    }
    for source in facts["sources"]:
        typer.echo(f"{source['name']}: a document is a {source['separator']!r}" if source["separator"] in _KINDS
                   else f"{source['name']}: documents are separated by {source['separator']!r}")  # fmt: skip
    for name, value in lines.items():
        typer.echo(f"{name:<12}{value}")
    typer.echo(f'\nIn a recipe: [data] corpus = "{out}" and, for a new model, [tokenizer] name = "{out}"')


_KINDS = ("line", "blank-line", "file", "row")
