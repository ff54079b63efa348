"""Small transformers, taken seriously: one readable core to pretrain, fine-tune, adapt, probe and compare them."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Average", "Fuse", "Model", "RequestError", "Run", "Stack", "Study", "Translator", "WorkError", "load",
    "probe_bias", "probe_knowledge", "results", "run",
]  # fmt: skip

if TYPE_CHECKING:
    from heedful.api import run
    from heedful.errors import RequestError, WorkError
    from heedful.findings import Run, Study, results
    from heedful.inference.loading import load
    from heedful.inference.model import Model
    from heedful.inference.translation.translator import Translator
    from heedful.models.composition import Average, Fuse, Stack
    from heedful.probes.bias.run import probe_bias
    from heedful.probes.knowledge.run import probe_knowledge


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__version__"]


def __getattr__(name: str) -> Any:
    # `import heedful` must stay instant, so torch is imported when the first model is asked for.
    if name == "run":
        from heedful.api import run

        return run
    if name in {"load", "Model"}:
        from heedful.inference import loading

        return getattr(loading, name)
    if name in {"results", "Run", "Study"}:
        from heedful import findings

        return getattr(findings, name)
    if name in {"Average", "Fuse", "Stack"}:
        from heedful.models import composition

        return getattr(composition, name)
    if name == "probe_bias":
        from heedful.probes.bias import run as bias

        return bias.probe_bias
    if name == "probe_knowledge":
        from heedful.probes.knowledge import run as knowledge

        return knowledge.probe_knowledge
    if name == "Translator":
        from heedful.inference.translation import translator

        return translator.Translator
    if name in {"RequestError", "WorkError"}:
        from heedful import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")
