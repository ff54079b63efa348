"""`heedful data shard`: tokenise text once and store it for pretraining."""

from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.cli.show import print_json, size


def shard(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Text (may be gzipped), JSONL or Parquet files, or a named corpus."),
    ],
    out: Annotated[Path, typer.Option(help="Corpus directory. An unfinished corpus there is continued.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="Use the tokenizer of this model: a directory, hub id or name.", metavar="MODEL")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Train a tokenizer on the text instead: wordpiece (default) or bpe.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Vocabulary size of a trained tokenizer; default: 8000.", min=100)
    ] = None,
    separator: Annotated[
        str, typer.Option(help="What ends a document: line, blank-line, file, or a separator line of yours.")
    ] = "auto",
    text: Annotated[str | None, typer.Option(help="JSONL key or Parquet column with the text.")] = None,
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", help="Keep only the first of identical documents.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Output JSON.")] = False,
) -> None:
    """Tokenise text into memory-mapped shards for pretraining. Use the directory as data.corpus in a recipe."""
    from heedful.inputs.sharding import shard_corpus

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
    fewer = f" ({asked:,} requested; the text has no more)" if asked > facts["vocabulary"] else ""
    lines = {
        "corpus": str(out),
        "documents": f"{facts['documents']:,}",
        "sentences": f"{facts['sentences']:,}",
        "tokens": f"{facts['tokens']:,} ({facts['bytes'] / facts['tokens']:.2f} bytes each)",
        "text": size(facts["bytes"]),
        "vocabulary": f"{facts['vocabulary']:,}, {facts['unused']:,} of them unused{fewer}",
        "unknown": f"{100 * facts['unknown_share']:.3f}% of the tokens",
        "lengths": ", ".join(f"{point} {value:,}" for point, value in facts["lengths"].items())
        + " tokens per document",
        "skipped": f"{facts['duplicates']:,} duplicates, {facts['without_tokens']:,} without a token, "
        f"{facts.get('without_text', 0):,} rows without text",
    }
    for source in facts["sources"]:
        typer.echo(f"{source['name']}: each document is a {source['separator']}" if source["separator"] in _KINDS
                   else f"{source['name']}: documents are separated by {source['separator']!r}")  # fmt: skip
    for name, value in lines.items():
        typer.echo(f"{name:<12}{value}")
    typer.echo(f'\nIn a recipe: [data] corpus = "{out}" and, for a new model, [tokenizer] name = "{out}"')


_KINDS = ("line", "blank-line", "file", "row")
