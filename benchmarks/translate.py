"""Translating and training, against transformers, CTranslate2 and JoeyNMT.

    HEEDFUL_DATA=FOLDER python benchmarks/translate.py prepare runs/speed [--epochs N]
    python benchmarks/translate.py decode runs/speed [--beam N] [--repetitions N] [--threads N]
    HEEDFUL_DATA=FOLDER python benchmarks/translate.py train runs/speed --joeynmt PYTHON [--rows N] [--epochs N] …

`prepare` trains one SentencePiece vocabulary and one translator of multi30k, English to German, in Marian's layout, so
that all can read it; the row with which targets start is then set to zeros, as CTranslate2 has it. `decode` translates
the 1,000 sentences of test with beam search: ours, `MarianMTModel.generate` with sentences of similar length together,
both by its rule to stop (`early_stopping=False`), ours by its own rule, too, and CTranslate2 (if installed) in float32
and with int8 weights, from text to text. `train` trains the same shape on the
same tokens with ours and with JoeyNMT, whose Python is named, in processes of their own that take turns: as many passes
over the same pairs, so that times compare as tokens per second do. Medians; a ratio is the peer's time by ours.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LAYERS, WIDTH, INNER, HEADS, WORDS, DROPOUT, SMOOTHING = 3, 128, 512, 4, 6000, 0.1, 0.1
BATCH_TOKENS, LR, BATCH = 4096, 3e-3, 32
RECIPE = """
seeds = [0]
objective = {{ kind = "translate", smoothing = {smoothing}, beam = 0, final_beam = 1 }}
evaluation = {{ metric = "loss", test = false }}

[model]
name = "{model}"

[data]
train = "{folder}/train"
dev = "{folder}/dev"
test = "{folder}/dev"
source = "en"
target = "de"

[training]
epochs = {epochs}
batch_tokens = {tokens}
optimiser = "{optimiser}"
lr = {lr}
warmup = 0.1
betas = [0.9, 0.98]
weight_decay = 0.0
max_length = 100
precision = "{precision}"
threads = {threads}
keep = "last"
"""
JOEYNMT = """
name: "translator"
joeynmt_version: "2.3.0"
model_dir: "{directory}"
use_cuda: False
fp16: False
random_seed: {seed}
data:
    train: "{folder}/train"
    dev: "{folder}/dev"
    test: "{folder}/{test}"
    dataset_type: "plain"
    src: &side
        lang: "en"
        level: "bpe"
        lowercase: False
        max_length: 100
        voc_file: "{folder}/pieces.txt"
        tokenizer_type: "sentencepiece"
        tokenizer_cfg: {{ model_file: "{folder}/spm.model" }}
    trg:
        <<: *side
        lang: "de"
    special_symbols: {{ unk_token: "<unk>", unk_id: 0, pad_token: "<pad>", pad_id: 1, bos_token: "<s>", bos_id: 2,
                       eos_token: "</s>", eos_id: 3, lang_tags: [] }}
testing: {{ n_best: 1, batch_size: 1000, batch_type: "token", {testing} }}
training:
    optimizer: "adam"
    adam_betas: [0.9, 0.98]
    learning_rate: {lr}
    learning_rate_min: 0.0
    scheduling: "warmupinversesquareroot"
    learning_rate_warmup: {warmup}
    weight_decay: 0.0
    label_smoothing: {smoothing}
    loss: "crossentropy"
    normalization: "tokens"
    batch_size: {tokens}
    batch_type: "token"
    epochs: {epochs}
    updates: {updates}
    validation_freq: {mark}
    logging_freq: {mark}
    early_stopping_metric: "{metric}"
    overwrite: True
    shuffle: True
    print_valid_sents: []
    keep_best_ckpts: 1
model:
    initializer: "xavier_uniform"
    embed_initializer: "xavier_uniform"
    tied_embeddings: True
    tied_softmax: True
    encoder: &part
        type: "transformer"
        num_layers: {layers}
        num_heads: {heads}
        embeddings: {{ embedding_dim: {width}, scale: True, dropout: {dropout} }}
        hidden_size: {width}
        ff_size: {inner}
        dropout: {dropout}
        layer_norm: "{norm}"
        activation: "{activation}"
    decoder: *part
"""


def run_recipe(folder: Path, out: Path, **values: Any) -> None:
    import heedful

    recipe = folder / f"{out.name}.toml"
    recipe.write_text(RECIPE.format(smoothing=SMOOTHING, folder=folder, model=folder / "untrained", **values))
    heedful.run(recipe, out=out)


def prepare(options: argparse.Namespace) -> None:
    """The vocabulary, the data as files, a model with random weights, and a trained one."""
    import heedful
    from heedful.data.translations import load_pairs

    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    splits = load_pairs(name="multi30k-en-de").splits
    for split in splits:
        for side, texts in zip(("en", "de"), splits[split].sides, strict=True):
            (folder / f"{split}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    untrained(folder)
    run_recipe(
        folder, folder / "training", epochs=options.epochs, precision="bfloat16", threads=options.threads,
        tokens=1024, optimiser="muon", lr=2e-3,
    )  # fmt: skip
    model: Any = heedful.load(str(folder / "training" / "best"))
    zero_start(model.checkpoint)
    model.save(folder / "translator", layout="marian")
    found = model.translate(splits["test"].sources, beam=5)
    print(f"BLEU on test with 5 beams: {bleu(found.texts, splits['test'].targets):.2f}")


def untrained(folder: Path) -> None:
    import sentencepiece
    import torch
    import transformers

    prefix = str(folder / "spm")
    sentencepiece.SentencePieceTrainer.train(
        input=f"{folder / 'train.en'},{folder / 'train.de'}", model_prefix=prefix, vocab_size=WORDS - 1,
        model_type="bpe", minloglevel=2, bos_id=2, eos_id=1, unk_id=0, character_coverage=1.0,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    (folder / "pieces.txt").write_text("".join(f"{pieces.id_to_piece(i)}\n" for i in range(3, len(pieces))))
    directory = folder / "untrained"
    directory.mkdir(exist_ok=True)
    for side in ("source", "target"):
        shutil.copyfile(f"{prefix}.model", directory / f"{side}.spm")
    tokens = ["</s>", "<unk>", *(pieces.id_to_piece(i) for i in range(2, len(pieces))), "<pad>"]
    (directory / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    settings = {"source_lang": "en", "target_lang": "de", "model_max_length": 512, "tokenizer_class": "MarianTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    pad = len(tokens) - 1
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in (
        ("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", INNER))}  # fmt: skip
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=len(tokens), d_model=WIDTH, **sizes, max_position_embeddings=512, scale_embedding=True,
        activation_function="swish", pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad,
        forced_eos_token_id=None, dropout=DROPOUT, attention_dropout=DROPOUT, init_std=WIDTH**-0.5,
    )  # fmt: skip
    transformers.MarianMTModel(config).save_pretrained(directory)
    generation = {
        "bad_words_ids": [[pad]], "decoder_start_token_id": pad, "eos_token_id": 0, "pad_token_id": pad,
        "max_length": 128, "num_beams": 5, "forced_eos_token_id": None, "early_stopping": False,
    }  # fmt: skip
    (directory / "generation_config.json").write_text(json.dumps(generation))


def zero_start(checkpoint: Any) -> None:
    """In every table that has a row for it."""
    import torch

    rows = checkpoint.begin_id + 1  # it is the last of all
    with torch.no_grad():
        for _, parameter in checkpoint.model.named_parameters():
            if parameter.dim() == 2 and parameter.shape[0] == rows:
                parameter[checkpoint.begin_id] = 0


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(texts), [list(references)]).score)


Translate = Callable[[list[str]], list[str]]


def translators(folder: Path, beam: int, threads: int) -> dict[str, Translate]:
    import torch
    import transformers

    import heedful

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    directory = folder / "translator"
    model: Any = heedful.load(str(directory))
    peer = transformers.MarianMTModel.from_pretrained(directory).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(directory)

    def ours(texts: list[str], stopping: str = "heuristic") -> list[str]:
        asked = {"beam": beam, "batch_size": BATCH, "max_length": 127, "stopping": stopping}
        return list(model.translate(texts, **asked).texts)

    @torch.inference_mode()
    def theirs(texts: list[str]) -> list[str]:
        ids = [tokenizer(text).input_ids for text in texts]
        order = sorted(range(len(texts)), key=lambda i: -len(ids[i]))
        found = [""] * len(texts)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt")
            written = peer.generate(**batch, num_beams=beam, max_length=128, early_stopping=False)
            for i, text in zip(rows, tokenizer.batch_decode(written, skip_special_tokens=True), strict=True):
                found[i] = text
        return found

    contestants: dict[str, Translate] = {"heedful": ours, "transformers": theirs}
    contestants["heedful, until nothing can become better"] = lambda texts: ours(texts, "exact")
    try:
        import ctranslate2
    except ImportError:
        print("ctranslate2 is not installed: left out", file=sys.stderr)
        return contestants
    converted = folder / "converted"
    if not converted.exists():
        ctranslate2.converters.TransformersConverter(str(directory)).convert(str(converted))
    for kind in ("float32", "int8"):
        engine = ctranslate2.Translator(str(converted), compute_type=kind, inter_threads=1, intra_threads=threads)

        def other(texts: list[str], engine: Any = engine) -> list[str]:
            tokens = [tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in texts]
            found = engine.translate_batch(tokens, beam_size=beam, max_batch_size=BATCH, max_decoding_length=127)
            ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
            return list(tokenizer.batch_decode(ids, skip_special_tokens=True))

        contestants[f"CTranslate2, {kind}"] = other
    return contestants


def decode(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    sources, references = ((options.folder / f"test.{side}").read_text().splitlines() for side in ("en", "de"))
    contestants = translators(options.folder, options.beam, options.threads)
    found = {name: translate(sources) for name, translate in contestants.items()}  # also warms them up
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.repetitions):
        for name, translate in contestants.items():
            start = time.perf_counter()
            translate(sources)
            times[name].append(time.perf_counter() - start)
    ours = statistics.median(times["heedful"])
    print(f"{options.threads} threads, beam of {options.beam}, {len(sources)} sentences, batches of {BATCH}")
    print("| | sentences/s | its time by ours | BLEU | the same as ours |\n|---|---|---|---|---|")
    for name, texts in found.items():
        seconds = statistics.median(times[name])
        same = sum(a == b for a, b in zip(texts, found["heedful"], strict=True)) / len(texts)
        score = bleu(texts, references)
        print(f"| {name} | {len(sources) / seconds:.1f} | {seconds / ours:.2f} | {score:.2f} | {same:.1%} |")


def train(options: argparse.Namespace) -> None:
    folder: Path = options.folder
    times: dict[str, list[float]] = {"heedful": [], "JoeyNMT": []}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for split, rows in (("train", options.rows), ("dev", 10)):
            for side in ("en", "de"):
                lines = (folder / f"{split}.{side}").read_text().splitlines(keepends=True)[:rows]
                (place / f"{split}.{side}").write_text("".join(lines))
        for name in ("spm.model", "pieces.txt"):
            shutil.copyfile(folder / name, place / name)
        shutil.copytree(folder / "untrained", place / "untrained")
        for n in range(options.repetitions):
            pair = {"heedful": our_seconds, "JoeyNMT": their_seconds}
            for name in sorted(pair, reverse=bool(n % 2)):
                times[name].append(pair[name](place, options))
                print(f"{name}: {times[name][-1]:.2f} s a pass", file=sys.stderr, flush=True)
        tokens = target_tokens(place)
    median = {name: statistics.median(of) for name, of in times.items()}
    print(f"{options.threads} threads, {options.rows} pairs, {tokens} target tokens")
    print("| | target tokens/s | its time by ours |\n|---|---|---|")
    for name, seconds in median.items():
        print(f"| {name} | {tokens / seconds:.0f} | {seconds / median['heedful']:.2f} |")


def target_tokens(place: Path) -> int:
    """With the end of each."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(place / "spm.model"))
    return sum(len(ids) + 1 for ids in pieces.encode((place / "train.de").read_text().splitlines()))


def our_seconds(place: Path, options: argparse.Namespace) -> float:
    """Of a pass, without the first: by two trainings of different length."""
    seconds = []
    for epochs in (1, 1 + options.epochs):
        out = place / f"ours-{epochs}"
        shutil.rmtree(out, ignore_errors=True)
        run_recipe(
            place, out, epochs=epochs, precision="float32", threads=options.threads, tokens=BATCH_TOKENS,
            optimiser="adamw", lr=LR,
        )  # fmt: skip
        manifest = json.loads(next(out.rglob("manifest.json")).read_text())
        seconds.append(manifest["cost"]["training_seconds"])
    return (seconds[1] - seconds[0]) / options.epochs


def their_seconds(place: Path, options: argparse.Namespace) -> float:
    """Of a pass, without the first: as it says itself."""
    never, epochs = 1000000, 1 + options.epochs
    settings = joeynmt_settings(
        place, place / "joeynmt", dropout=DROPOUT, tokens=BATCH_TOKENS, lr=LR, warmup=1000, norm="post",
        activation="swish", epochs=epochs, updates=never, mark=never, metric="loss",
        testing="beam_size: 1, eval_metrics: [], max_output_length: 2",
    )  # fmt: skip
    said = run_joeynmt(options.joeynmt, options.threads, "train", settings, "--skip-test")
    passes = [float(found) for found in re.findall(r"num. of tokens: \d+, ([\d.]+)\[sec\]", said)]
    if len(passes) != epochs:
        raise SystemExit(f"JoeyNMT did not train:\n{said[-2000:]}")
    return statistics.mean(passes[1:])


def joeynmt_settings(folder: Path, directory: Path, seed: int = 0, test: str = "dev", **values: Any) -> Path:
    """The file of settings of a model of the same shape, which is trained into `directory` on the texts in `folder`."""
    shape = {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "inner": INNER, "smoothing": SMOOTHING}
    path = directory.with_suffix(".yaml")
    path.write_text(JOEYNMT.format(folder=folder, directory=directory, seed=seed, test=test, **shape, **values))
    return path


def run_joeynmt(python: str, threads: int, *arguments: str | Path) -> str:
    """What it said."""
    limits = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [python, "-m", "joeynmt", *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **limits},
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode:
        raise SystemExit(f"JoeyNMT failed:\n{said[-2000:]}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("prepare", "decode", "train"))
    parser.add_argument("folder", type=lambda given: Path(given).resolve())
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1, help="passes that are trained, or timed after a first")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3000, help="pairs that are trained on to take the time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--joeynmt", help="a Python in which JoeyNMT is installed")
    options = parser.parse_args()
    if options.part == "train" and not options.joeynmt:
        parser.error("train needs --joeynmt")
    {"prepare": prepare, "decode": decode, "train": train}[options.part](options)


if __name__ == "__main__":
    main()
