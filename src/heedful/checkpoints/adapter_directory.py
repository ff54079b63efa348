"""One adapter or one fusion with its head, as a directory: added to a model, or written from one."""

from dataclasses import replace
from pathlib import Path

from heedful.checkpoints import adapter_heads, adapterhub
from heedful.checkpoints.adapters import (
    FOLDER,
    Files,
    StoredAdapter,
    adapter_files,
    body_digest,
    find_adapter,
    fusion_files,
    put_adapter,
    put_fusion,
    read_note,
)
from heedful.checkpoints.directory import Checkpoint
from heedful.checkpoints.families import FAMILIES
from heedful.checkpoints.tensors import existing
from heedful.errors import RequestError
from heedful.models.adapters import check_composition, remove_adapter
from heedful.models.composition import Composition, Fuse, parse_composition
from heedful.models.transformer import Transformer


def add_stored(
    transformer: Transformer, family: str, source: str | Path, name: str | None, head: str | bool, revision: str | None
) -> tuple[str, dict[str, str]]:
    """See `heedful.api.Model.load_adapter`. Returns the name, and where the tensors came from; a refused one leaves the
    model as it was."""
    dialect, path = FAMILIES[family], Path(str(source)).expanduser()
    composition: Composition
    if path.is_dir() and existing(path, adapterhub.CONFIG) is None and existing(path, adapterhub.FUSION_CONFIG):
        if name is not None:
            raise RequestError(f"{source}: is a fusion, which is named after its adapters; leave name out.")
        composition, sources = put_fusion(transformer, family, path)
        stored = StoredAdapter(path, str(composition), "adapterhub", {}, read_note(path))
    else:
        stored = find_adapter(source, revision)
        composition = stored.name if name is None else name
        sources = put_adapter(transformer, family, stored, composition)
    try:
        found = None
        if head is not False:
            found = adapter_heads.find_head(stored, dialect, transformer.shape)
            place = stored.directory.resolve()
            if found is None and place.parent.name == FOLDER:  # in a model directory, which has the heads
                theirs = composition if isinstance(composition, Fuse) else place.name
                found = adapter_heads.find_head_of_model(place.parent.parent, theirs, dialect)
        if found is None and isinstance(head, str):
            raise RequestError(f"{source}: has no head to be called {head!r}; leave head out.")
        if found is not None:
            own = "-".join(composition.names) if isinstance(composition, Fuse) else composition
            called = head if isinstance(head, str) else own
            sources |= adapter_heads.put_head(transformer, stored.directory, called, found, str(composition))
    except BaseException:
        if isinstance(composition, Fuse):
            del transformer.fusions[composition.name], transformer.fusion_shapes[composition.name]
        else:
            remove_adapter(transformer, str(composition))
        raise
    return str(composition), sources


def stored_files(checkpoint: Checkpoint, composition: Composition | None, head: str | bool) -> Files:
    """See `heedful.api.Model.save_adapter`."""
    transformer, family = checkpoint.transformer, checkpoint.family
    if not isinstance(composition, str | Fuse):
        raise RequestError(f"{composition}: only an adapter by its name and a fusion, fuse(a, b), have a directory.")
    check_composition(transformer, composition)
    name = _head(transformer, composition, head)
    model_name = checkpoint.called
    if isinstance(composition, str):
        if name is None:
            return adapter_files(transformer, family, composition, model_name, body_digest(transformer))
        return adapter_heads.files_with_head(transformer, family, composition, name, model_name)
    files = fusion_files(transformer, family, composition.name, model_name)
    if name is not None:
        shape = replace(transformer.head_shapes[name], adapters="")
        parameters = {n: p.detach().cpu() for n, p in transformer.heads[name].named_parameters()}
        adapter_heads.add_our_head(files, shape, parameters, transformer)
        dialect = FAMILIES[family]
        files |= adapter_heads.adapterhub_head(transformer, dialect, composition.name, shape, parameters, model_name)
    return files


def _head(transformer: Transformer, composition: Composition, head: str | bool) -> str | None:
    """The head that is written with it."""
    if head is False:
        return None
    if isinstance(head, str):
        if head not in transformer.heads:
            raise RequestError(f"the model has no head {head!r}; it has {', '.join(transformer.heads) or 'none'}.")
        through = transformer.head_shapes[head].adapters
        if through and parse_composition(through) != composition:
            raise RequestError(f"the head {head!r} reads through {through}, not through {composition}.")
        return head
    own = [
        name
        for name, shape in transformer.head_shapes.items()
        if shape.adapters and parse_composition(shape.adapters) == composition
    ]
    if len(own) > 1:
        raise RequestError(f"several heads read through {composition} ({', '.join(own)}); say which with head=…")
    return own[0] if own else None
