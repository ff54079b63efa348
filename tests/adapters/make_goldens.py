"""Write the goldens: adapter, fusion and head directories by the `adapters` library, and what it computes with them.

The library pins its own transformers, so this runs in an environment of its own:

    pip install adapters==1.3.0 torch==2.13.0
    python tests/adapters/make_goldens.py

It writes goldens/, from nothing and the same each time (weights are a formula of name and index):

    cases.json                     what to load, how it is composed, what was not at its default; and what to refuse
    <family>/base/                 the model, as transformers saves it
    <family>/<directory>/          what save_adapter, save_adapter_fusion and save_head wrote
    <family>/answers.safetensors   input_ids, attention_mask, token_type_ids (BERT), weights/states, weights/logits,
                                   and for each case <case>/states, <case>/logits, <case>/grad/<parameter>, and for
                                   a fusion <case>/attention/<layer>/<place> and <case>/regularization

The loss behind the gradients is the sum of logits * weights/logits[:, :labels] or, without a head, of
states * weights/states, whose weights are zero at padding. A parameter without a gradient is one that the loss does not
reach. All in eval mode, one forward pass each, computed in float64 with the saved float32 weights, written as float32.
"""

import json
import logging
import math
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import adapters
import torch
import transformers
from adapters import AutoAdapterModel, DoubleSeqBnConfig, LoRAConfig, ParBnConfig, SeqBnConfig
from adapters.composition import Average, Fuse, Stack
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import BertConfig, DistilBertConfig, GPT2Config, RobertaConfig

GOLDENS = Path(__file__).parent / "goldens"
LABELS = {0: "bad", 1: "so-so", 2: "good"}
LENGTHS = (9, 6, 4)
CONFIGS = {
    "bert": BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    ),
    "roberta": RobertaConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=34,
        layer_norm_eps=1e-5,
        type_vocab_size=1,
    ),
    "distilbert": DistilBertConfig(
        vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32
    ),
    "gpt2": GPT2Config(
        vocab_size=40,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_inner=32,
        n_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    ),
}

# one adapter on its own: the case, its preset, what is not at the preset's value
BOTTLENECKS: list[tuple[str, type, dict[str, Any]]] = [
    ("pfeiffer", SeqBnConfig, {}),
    ("houlsby", DoubleSeqBnConfig, {}),
    ("parallel", ParBnConfig, {}),
    ("ln-before", SeqBnConfig, {"ln_before": True}),
    ("ln-after", SeqBnConfig, {"ln_after": True}),
    ("ln-after-residual-first", SeqBnConfig, {"ln_after": True, "adapter_residual_before_ln": True}),
    ("residual-after-ln", SeqBnConfig, {"residual_before_ln": False}),
    ("residual-post-add", SeqBnConfig, {"residual_before_ln": "post_add"}),
    ("pfeiffer-without-ln-before", SeqBnConfig, {"original_ln_before": False}),
    ("houlsby-with-ln-before", DoubleSeqBnConfig, {"original_ln_before": True}),
    (
        "without-ln-after",
        DoubleSeqBnConfig,
        {"original_ln_before": True, "original_ln_after": False, "residual_before_ln": False},
    ),
    ("gelu", SeqBnConfig, {"non_linearity": "gelu"}),
    ("gelu-new", SeqBnConfig, {"non_linearity": "gelu_new"}),
    ("leakyrelu", SeqBnConfig, {"non_linearity": "leakyrelu"}),
    ("tanh", SeqBnConfig, {"non_linearity": "tanh"}),
    ("widening", SeqBnConfig, {"reduction_factor": 0.5}),
    ("reduction-by-layer", SeqBnConfig, {"reduction_factor": {"1": 2, "default": 8}}),
    ("leave-out", DoubleSeqBnConfig, {"leave_out": [0, 2]}),
    ("scaling", SeqBnConfig, {"scaling": 2.5, "init_weights": "mam_adapter"}),
    ("scaling-learned", SeqBnConfig, {"scaling": "learned", "init_weights": "houlsby"}),
    ("scaling-channel", SeqBnConfig, {"scaling": "channel"}),
    ("gating", SeqBnConfig, {"use_gating": True}),
    ("dropout", SeqBnConfig, {"dropout": 0.3}),
    ("attention-only", DoubleSeqBnConfig, {"output_adapter": False}),
    ("pfeiffer-both", SeqBnConfig, {"mh_adapter": True}),
    ("parallel-both", ParBnConfig, {"mh_adapter": True, "scaling": "learned"}),
    ("parallel-norms", ParBnConfig, {"ln_before": True, "ln_after": True, "dropout": 0.2}),
    ("parallel-gating", ParBnConfig, {"use_gating": True}),
    ("lora", LoRAConfig, {}),
    (
        "lora-everywhere",
        LoRAConfig,
        {"intermediate_lora": True, "output_lora": True, "attn_matrices": ["q", "k", "v"], "r": 4, "alpha": 10},
    ),
    ("lora-gating", LoRAConfig, {"use_gating": True, "leave_out": [1], "r": 2, "alpha": 6, "dropout": 0.1}),
]
DEFAULT_WIDTH = {"pfeiffer", "houlsby", "parallel"}  # the preset's own reduction factor; elsewhere 4, unless it says

FUSIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("dynamic", "abc", {}),
    ("static", "abc", {"value": False, "value_initialized": False, "regularization": False}),
    ("query-before-ln", "abc", {"query_before_ln": True}),
    ("residual-before", "abc", {"residual_before": True}),
    ("without-key", "abc", {"key": False}),
    ("without-query", "abc", {"query": False}),
    ("value-alone", "abc", {"key": False, "query": False}),
    ("value-after-softmax", "abc", {"value_before_softmax": False}),
    ("temperature", "abc", {"temperature": True}),
    ("unregularized", "abc", {"regularization": False, "value_initialized": False}),
    ("dropout", "abc", {"dropout_prob": 0.4}),
    ("houlsby", "de", {}),
    ("houlsby-query-before-ln", "de", {"query_before_ln": True, "residual_before": True}),
    ("parallel", "fg", {}),
]

COMPOSITIONS: list[tuple[str, Any]] = [
    ("stack", {"stack": ["a", "b"]}),
    ("stack-houlsby", {"stack": ["d", "e"]}),
    ("stack-pfeiffer-houlsby", {"stack": ["a", "d"]}),
    ("average", {"average": ["a", "b"]}),
    ("average-houlsby", {"average": ["d", "e"]}),
    ("average-weighted", {"average": ["a", "b", "c"], "weights": [1.0, 2.0, 5.0]}),
    ("average-as-given", {"average": ["a", "b"], "weights": [1.5, 0.5], "normalize": False}),
    ("average-of-stacks", {"average": [{"stack": ["a", "b"]}, "c"]}),
    ("stack-of-average", {"stack": ["a", {"average": ["b", "c"]}]}),
    ("stack-of-fusion", {"stack": ["a", {"fuse": ["b", "c"]}]}),
    ("fusion-of-stacks", {"fuse": [{"stack": ["a", "b"]}, "c"]}),
]

HEADS: list[tuple[str, dict[str, Any]]] = [
    ("head-one-layer", {"layers": 1, "num_labels": 3, "id2label": LABELS}),
    ("head-pooler", {"layers": 1, "num_labels": 3, "id2label": LABELS, "use_pooler": True}),
    ("head-relu", {"layers": 2, "num_labels": 4, "activation_function": "relu"}),
    ("head-no-activation", {"layers": 2, "num_labels": 3, "activation_function": None}),
    ("head-regression", {"layers": 1, "num_labels": 1}),
    ("head-multilabel", {"layers": 2, "num_labels": 3, "id2label": LABELS, "multilabel": True}),
]

REFUSED: list[tuple[str, Any]] = [
    ("invertible", SeqBnConfig(inv_adapter="nice", inv_adapter_reduction_factor=2)),
    ("compacter", adapters.CompacterConfig(reduction_factor=4, phm_dim=2)),
    ("prefix-tuning", adapters.PrefixTuningConfig(prefix_length=2, bottleneck_size=4)),
    ("prompt-tuning", adapters.PromptTuningConfig(prompt_length=2)),
    ("ia3", adapters.IA3Config()),
    ("dora", adapters.DoRAConfig(r=2)),
    ("vera", adapters.VeraConfig(r=2)),
    (
        "mam",
        adapters.MAMConfig(
            adapters.PrefixTuningConfig(prefix_length=2, bottleneck_size=4), ParBnConfig(reduction_factor=4)
        ),
    ),
]


def wave(name: str, shape: torch.Size) -> torch.Tensor:
    """Values in [-1, 1] of name and index: the sine of a squared running count, so that no matrix is of low rank."""
    count = torch.arange(math.prod(shape), dtype=torch.int64) + zlib.crc32(name.encode()) % 9973
    return torch.sin((count * count % 9973).double() * (2 * math.pi / 9973)).reshape(shape).float()


def fill(model: Any) -> None:
    """Give every parameter that did not come from the base its formula. Names that share a tensor share the first's."""
    base: set[str] = set()
    if model.name_or_path:
        with safe_open(Path(model.name_or_path) / "model.safetensors", "pt") as file:
            base = set(file.keys())
    for name, parameter in model.named_parameters():
        if name.removeprefix(f"{model.base_model_prefix}.") in base:
            continue
        leaf = name.rsplit(".", 2)[-2:]
        w = wave(name, parameter.shape)
        if leaf[-1] == "bias":
            value = 0.1 * w
        elif leaf[-1] == "scaling" or parameter.ndim == 1:  # the learned factors, and norms
            value = 1 + 0.2 * w
        elif "adapter_fusion_layer" in name:
            value = torch.eye(len(w)) + 0.15 * w if leaf[0] == "value" else 0.3 * w
        elif "embedding" in name or leaf[0] in ("wte", "wpe"):
            value = w
        else:
            value = 0.3 * w
        parameter.data = value


def build(family: str, cls: Any = AutoAdapterModel, **options: Any) -> Any:
    model = cls.from_pretrained(f"{family}/base", **options)
    adapters.init(model)
    return model.eval()


def inputs(family: str) -> dict[str, torch.Tensor]:
    pad = CONFIGS[family].pad_token_id
    width = max(LENGTHS)
    mask = torch.tensor([[int(j < n) for j in range(width)] for n in LENGTHS])
    ids = torch.tensor([[(11 * i + 7 * j + j * j) % 36 + 4 for j in range(width)] for i in range(len(LENGTHS))])
    batch = {"input_ids": ids * mask + pad * (1 - mask), "attention_mask": mask}
    if family == "bert":
        batch["token_type_ids"] = torch.tensor([[int(j >= 3 + i) for j in range(width)] for i in range(3)]) * mask
    return batch


def compose(setup: Any) -> Any:
    if isinstance(setup, str):
        return setup
    if "stack" in setup:
        return Stack(*[compose(child) for child in setup["stack"]])
    if "fuse" in setup:
        return Fuse(*[compose(child) for child in setup["fuse"]])
    children = [compose(child) for child in setup["average"]]
    return Average(*children, weights=setup.get("weights"), normalize_weights=setup.get("normalize", True))


def save(model: Any, directory: str, name: str, with_head: bool = False) -> None:
    """What the library writes. Where two names share a tensor it cannot write safetensors: then its .bin, rewritten."""
    options = {} if not hasattr(model, "save_head") else {"with_head": with_head}
    try:
        model.save_adapter(directory, name, use_safetensors=True, **options)
    except RuntimeError as error:
        if "share memory" not in str(error):
            raise
        with tempfile.TemporaryDirectory() as scratch:
            model.save_adapter(scratch, name, **options)
            weights = torch.load(Path(scratch) / "pytorch_adapter.bin", weights_only=True)
        save_file({key: value.clone() for key, value in weights.items()}, Path(directory) / "adapter.safetensors")


class Goldens:
    """One family's answers, and the list of all cases."""

    def __init__(self, family: str, cases: list[dict[str, Any]]) -> None:
        self.family, self.cases = family, cases
        self.batch = inputs(family)
        shape = torch.Size((*self.batch["input_ids"].shape, 16))
        self.tensors: dict[str, torch.Tensor] = dict(self.batch)
        self.tensors["weights/states"] = 0.2 * wave("states", shape) * self.batch["attention_mask"][..., None]
        self.tensors["weights/logits"] = wave("logits", torch.Size((len(LENGTHS), 5)))

    def add(
        self,
        case: str,
        model: Any,
        setup: Any,
        folders: dict[str, str],
        *,
        head: str | None = None,
        head_folder: str | None = None,
        fusion: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Run the composition once, forward and backward, and write down what came out."""
        model.set_active_adapters(compose(setup))
        if hasattr(model, "heads"):
            model.active_head = head
        wanted = tuple(f".{kind}.{name}." for name in folders for kind in ("adapters", "loras"))
        if fusion:
            wanted += ("adapter_fusion_layer",)
        if head_folder:
            wanted += (f"heads.{head}.", "classifier.", "score.")
        states: list[torch.Tensor] = []
        hook = model.base_model.register_forward_hook(lambda module, args, out: states.append(out[0]))
        model.double().zero_grad()
        extra = {"output_adapter_fusion_attentions": True} if fusion else {}
        out = model(**self.batch, **extra)
        hook.remove()
        if head_folder:
            loss = (out.logits * self.tensors["weights/logits"][:, : out.logits.shape[1]]).sum()
            self.tensors[f"{case}/logits"] = out.logits.detach()
        else:
            loss = (states[0] * self.tensors["weights/states"]).sum()
        loss.backward()
        self.tensors[f"{case}/states"] = states[0].detach()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and any(part in name for part in wanted):
                self.tensors[f"{case}/grad/{name}"] = parameter.grad.clone()
        if fusion:
            self._fusion(case, model, out)
        model.float()
        place = f"{self.family}/"
        self.cases.append(
            {
                "name": case,
                "family": self.family,
                "model": type(model).__name__,
                "base": f"{place}base",
                "adapters": {name: place + folder for name, folder in folders.items()},
                "fusion": fusion and place + fusion,
                "head": head_folder and place + head_folder,
                "composition": setup,
                "options": options or {},
            }
        )

    def _fusion(self, case: str, model: Any, out: Any) -> None:
        for layers in out.adapter_fusion_attentions.values():
            for layer, places in layers.items():
                for place, value in places.items():
                    self.tensors[f"{case}/attention/{layer}/{place}"] = torch.as_tensor(value)
        regularization = model.base_model.get_fusion_regularization_loss()
        if regularization is not None:
            self.tensors[f"{case}/regularization"] = regularization.detach()

    def write(self) -> None:
        clean = {
            name: (value.float() if value.is_floating_point() else value).contiguous().clone()
            for name, value in self.tensors.items()
        }
        save_file(clean, f"{self.family}/answers.safetensors")


def bottlenecks(goldens: Goldens) -> None:
    for case, preset, options in BOTTLENECKS:
        free = case in DEFAULT_WIDTH or preset is LoRAConfig or "reduction_factor" in options
        config = preset(**options) if free else preset(**{"reduction_factor": 4, **options})
        model = build("bert")
        model.add_adapter(case, config=config)
        fill(model)
        save(model, f"bert/{case}", case)
        goldens.add(case, model, case, {case: case}, options=options)


def team(family: str) -> Any:
    """The adapters that fusions and compositions share: a b c Pfeiffer, d e Houlsby, f g parallel."""
    model = build(family)
    for names, preset in (("abc", SeqBnConfig), ("de", DoubleSeqBnConfig), ("fg", ParBnConfig)):
        for name in names:
            model.add_adapter(name, config=preset(reduction_factor=4))
    return model


def fusions(goldens: Goldens) -> None:
    model = team("bert")
    fill(model)
    for name in "abcdefg":
        save(model, f"bert/{name}", name)
    for case, members, options in FUSIONS:
        model = team("bert")
        config = {**adapters.DynamicAdapterFusionConfig().to_dict(), **options}
        model.add_adapter_fusion(list(members), config=config)
        fill(model)
        folder = f"fusion-{case}"
        model.save_adapter_fusion(f"bert/{folder}", list(members), use_safetensors=True)
        folders = {name: name for name in members}
        goldens.add(folder, model, {"fuse": list(members)}, folders, fusion=folder, options=options)


def compositions(goldens: Goldens) -> None:
    model = team("bert")
    model.add_adapter_fusion(["b", "c"])
    fill(model)
    model.save_adapter_fusion("bert/fusion-b-c", ["b", "c"], use_safetensors=True)
    for case, setup in COMPOSITIONS:
        folders = {name: name for name in sorted(compose(setup).flatten())}
        fusion = "fusion-b-c" if "fuse" in json.dumps(setup) else None
        goldens.add(case, model, setup, folders, fusion=fusion)


def heads(goldens: Goldens) -> None:
    for case, options in HEADS:
        model = team("bert")
        model.add_classification_head(case, **options)
        fill(model)
        model.save_head(f"bert/{case}", case, use_safetensors=True)
        goldens.add(case, model, "a", {"a": "a"}, head=case, head_folder=case, options=options)
    model = build("bert")
    model.add_adapter("sentiment", config=SeqBnConfig(reduction_factor=4))
    model.add_classification_head("sentiment", num_labels=3, id2label=LABELS)
    fill(model)
    save(model, "bert/with-head", "sentiment", with_head=True)
    goldens.add("with-head", model, "sentiment", {"sentiment": "with-head"}, head="sentiment", head_folder="with-head")


def static(goldens: Goldens) -> None:
    """A transformers model with its own head, and one without any: names with and without the model's prefix."""
    family = goldens.family
    label2id = {label: index for index, label in LABELS.items()}
    model = build(
        family, transformers.AutoModelForSequenceClassification, num_labels=3, id2label=LABELS, label2id=label2id
    )
    model.add_adapter("task", config=SeqBnConfig(reduction_factor=4))
    fill(model)
    save(model, f"{family}/static-head", "task", with_head=True)
    goldens.add("static-head", model, "task", {"task": "static-head"}, head_folder="static-head")
    if family not in ("bert", "gpt2"):
        return
    model = build(family, transformers.AutoModel)
    model.add_adapter("task", config=SeqBnConfig(reduction_factor=4))
    fill(model)
    save(model, f"{family}/unprefixed", "task")
    goldens.add("unprefixed", model, "task", {"task": "unprefixed"})


def old(goldens: Goldens) -> None:
    """Directories as older versions left them, which the library reads by rules of its own."""
    rewritten: list[tuple[str, Any, dict[str, Any]]] = [
        ("old-without-version", SeqBnConfig(reduction_factor=4, non_linearity="gelu"), {"version": None}),
        ("old-preset", DoubleSeqBnConfig(), {"version": None, "config": "houlsby", "type": "text_task"}),
        ("old-lora", LoRAConfig(r=4, alpha=16), {"version": "adapters.1.0.1"}),
        ("old-transformers-lora", LoRAConfig(r=4, alpha=16), {"version": "3.2.1", "config_id": "625403edad0bf919"}),
    ]
    for case, config, changes in rewritten:
        model = build("bert")
        model.add_adapter(case, config=config)
        fill(model)
        save(model, f"bert/{case}", case)
        path = Path("bert") / case / "adapter_config.json"
        content = {**json.loads(path.read_text()), **changes}
        if case == "old-without-version":
            for key in ("init_weights_seed", "stochastic_depth", "dropout", "use_gating", "scaling", "is_parallel"):
                del content["config"][key]
        if case == "old-preset":
            rename(path.with_name("adapter.safetensors"))
        path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}, indent=2, sort_keys=True))
        model = build("bert")
        model.load_adapter(f"bert/{case}", use_safetensors=True)
        goldens.add(case, model, case, {case: case}, options=changes)


def rename(file: Path) -> None:
    """The tensor names of the first version, which knew tasks and languages apart."""
    kinds = (
        (".attention.output.adapters.", ".attention.output.attention_text_task_adapters."),
        (".output.adapters.", ".output.layer_text_task_adapters."),
    )
    weights = load_file(file)
    for new, former in kinds:
        weights = {name.replace(new, former): value for name, value in weights.items()}
    save_file(weights, file)


def families(goldens: Goldens) -> None:
    """The other families: each kind once, under one classification head."""
    family = goldens.family
    everywhere = next(options for case, _, options in BOTTLENECKS if case == "lora-everywhere")
    kinds: dict[str, Any] = {
        "pfeiffer": SeqBnConfig(),
        "pfeiffer-b": SeqBnConfig(reduction_factor=4),
        "houlsby": DoubleSeqBnConfig(reduction_factor=4),
        "houlsby-b": DoubleSeqBnConfig(reduction_factor=2),
        "parallel": ParBnConfig(),
        "lora": LoRAConfig(),
        "lora-everywhere": LoRAConfig(**everywhere),
    }
    model = build(family)
    for name, config in kinds.items():
        model.add_adapter(name, config=config)
    model.add_classification_head("pfeiffer", num_labels=3, id2label=LABELS)
    pairs = (["pfeiffer", "pfeiffer-b"], ["houlsby", "houlsby-b"])
    for pair in pairs:
        model.add_adapter_fusion(pair)
    fill(model)
    for name in kinds:
        save(model, f"{family}/{name}", name, with_head=name == "pfeiffer")
        if not name.endswith("-b"):
            goldens.add(name, model, name, {name: name}, head="pfeiffer", head_folder="pfeiffer")
    for pair in pairs:
        choose(model, ",".join(pair))
        folder = f"fusion-{pair[0]}"
        with_head = "pfeiffer" if pair[0] == "pfeiffer" else False
        model.save_adapter_fusion(f"{family}/{folder}", pair, use_safetensors=True, with_head=with_head)
        folders = {name: name for name in pair}
        goldens.add(
            folder,
            model,
            {"fuse": pair},
            folders,
            head="pfeiffer",
            head_folder=folder if with_head else "pfeiffer",
            fusion=folder,
        )


def choose(model: Any, fusion: str) -> None:
    """Freeze the other fusions: the regularization is over those that train."""
    for module in model.modules():
        for name, layer in getattr(module, "adapter_fusion_layer", {}).items():
            layer.requires_grad_(name == fusion)


def refused() -> dict[str, str]:
    for name, config in REFUSED:
        model = build("bert")
        model.add_adapter(name, config=config)
        fill(model)
        save(model, f"bert/{name}", name)
    return {name: f"bert/{name}" for name, _ in REFUSED}


def main() -> None:
    transformers.logging.set_verbosity_error()
    logging.getLogger("adapters").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    shutil.rmtree(GOLDENS, ignore_errors=True)
    GOLDENS.mkdir()
    os.chdir(GOLDENS)  # the library writes the path of the base into each config: let it be a short one
    cases: list[dict[str, Any]] = []
    for family, config in CONFIGS.items():
        base = transformers.AutoModel.from_config(config)
        fill(base)
        base.save_pretrained(f"{family}/base")
        goldens = Goldens(family, cases)
        parts = [bottlenecks, fusions, compositions, heads, old] if family == "bert" else [families]
        for part in [*parts, static]:
            part(goldens)
        goldens.write()
    made_by = {"adapters": adapters.__version__, "transformers": transformers.__version__, "torch": torch.__version__}
    content = {"made_by": made_by, "cases": cases, "refused": refused()}
    Path("cases.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
