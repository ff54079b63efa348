"""`heedful probe attention`: the attention of every head on a text, as a page and as arrays."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from heedful.cli.show import size
from heedful.errors import RequestError, WorkError

if TYPE_CHECKING:
    from heedful.inference.predictor import TransformerModel
    from heedful.probes.attention.views import Attention, View

_STANDING_OUT = (
    ("most focused", "entropy", min, "entropy {:.2f}"),
    ("most diffuse", "entropy", max, "entropy {:.2f}"),
    ("longest range", "distance", max, "{:.1f} tokens away"),
    ("most on itself", "itself", max, "{:.2f} of the weight"),
    ("most on previous", "previous", max, "{:.2f} of the weight"),
    ("most on next", "next", max, "{:.2f} of the weight"),
    ("most on first token", "first", max, "{:.2f} of the weight"),
    ("most on separators", "separators", max, "{:.2f} of the weight"),
)


def attention(
    model: Annotated[str, typer.Argument(help="Model directory, hub id, or name from `heedful models`.")],
    text: Annotated[str, typer.Argument(help="The text.")],
    second: Annotated[
        str | None,
        typer.Argument(metavar="SECOND", help="Second text of a pair; for a translator, the translation."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Head for gradient × attention; default: the classifier, if there is one.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Class or token for gradient × attention; default: the most likely.")
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(help="For heads that predict words: the token, counted from 1; default: the mask, or the last."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output page, .html; default: attention.html, attention-2.html, …")
    ] = None,
    arrays: Annotated[Path | None, typer.Option(help="Write all numbers to this .npz file for NumPy.")] = None,
) -> None:
    """Show the attention of every head, rollout, and gradient × attention on one offline page."""
    from heedful.report.page.write import check_page_place

    if out is not None:
        check_page_place(out)
    _check_arrays(arrays)
    if not text.strip() or (second is not None and not second.strip()):
        raise RequestError("the text is empty. Pass a text with words.")
    if position is not None and position < 1:
        raise RequestError(f"--position {position}: tokens are counted from 1.")
    from heedful.inference.loading import load
    from heedful.inference.translation.translator import Translator
    from heedful.probes.attention.look import look
    from heedful.probes.attention.page import page
    from heedful.probes.attention.translation import look as look_translation

    loaded = load(model)
    if isinstance(loaded, Translator):
        if head is not None or label is not None or position is not None:
            raise RequestError(f"{model} is a translator, which has no heads. Remove --head, --label and --position.")
        seen = look_translation(loaded, text, second)
    else:
        if second is not None and loaded.of_pairs is False:
            raise RequestError(f"{model} was trained on single texts. Pass only one.")
        read = text if second is None else (text, second)
        seen = look(cast("TransformerModel", loaded), read, head, label, None if position is None else position - 1)
    path = out or free_file(Path("attention.html"))
    files = [(path, page(seen).encode("utf-8")), *([(arrays, seen.packed())] if arrays is not None else [])]
    _write(files)
    for line in describe(seen):
        print(line)
    for file, content in files:
        print(f"{file} ({size(len(content))})")


def free_file(path: Path) -> Path:
    """Return the file, or the first of NAME-2, NAME-3, … that does not exist."""
    number = 2
    free = path
    while free.exists():
        free = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return free


def describe(seen: "Attention") -> list[str]:
    """Describe the heads that stand out, in lines of at most 80 characters (except the model's name)."""
    lines = []
    for view in seen.views:
        layers, heads = view.weights.shape[:2]
        tokens = "1 token" if len(view.rows) == 1 else f"{len(view.rows)} tokens"
        tokens += "" if view.kind == "self" else f" looking at {len(view.columns)}"
        shown = "1 head" if layers == heads == 1 else f"{layers} × {heads} heads"
        lines.append(f"{seen.source}: {view.title[0].lower()}{view.title[1:]}, {tokens}, {shown}")
        lines += ["Heads that stand out:", *_standing_out(view)]
    said = [] if seen.score is None else [f"Gradient × attention is for {seen.score.words}."]
    for sentence in [*said, *seen.notes]:
        lines += textwrap.wrap(sentence, 80)
    return lines


def _standing_out(view: "View") -> list[str]:
    import numpy as np

    lines = []
    for what, measure, best, words in _STANDING_OUT:
        values = view.summary[measure]
        if np.isnan(values).all():
            continue
        at = np.nanargmin(values) if best is min else np.nanargmax(values)
        lines.append(f"  {what:<20} {_head(view, int(at)):<18} {words.format(values.flat[at])}")
    share = view.summary["gradient"]
    if not np.isnan(share).all() and share.max() > 0:
        at = share.argmax()
        lines.append(
            f"  {'moves the score most':<20} {_head(view, int(at)):<18} {share.flat[at]:.2f} of gradient × attention"
        )
    return lines


def _head(view: "View", at: int) -> str:
    layer, head = divmod(at, view.weights.shape[1])
    return f"layer {view.layers[layer] + 1}, head {head + 1}"


def _check_arrays(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() != ".npz":
        raise RequestError(f"{path}: the ending must be .npz.")
    if path.is_dir() or not path.parent.is_dir():
        raise RequestError(f"{path}: the folder does not exist. Choose another file.")


def _write(files: list[tuple[Path, bytes]]) -> None:
    from heedful.storage.whole import write_bytes

    for path, content in files:
        try:
            write_bytes(path, content)
        except OSError as error:
            raise WorkError(f"{path}: could not be written ({error.strerror}). Nothing was left behind.") from None
