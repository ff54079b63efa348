"""Run by a Python with CTranslate2, transformers and sentencepiece: converts a directory with CTranslate2's own
converter and translates tokens with it. The request is JSON on the standard input, the answer JSON on the output."""

import json
import sys

import ctranslate2

request = json.load(sys.stdin)
converted = ctranslate2.converters.TransformersConverter(request["model"]).convert(request["converted"], force=True)
translator = ctranslate2.Translator(converted, device="cpu", intra_threads=1)
answers = []
for options in request["options"]:
    results = translator.translate_batch(request["sources"], return_scores=True, **options)
    answers.append([[(h, s) for h, s in zip(r.hypotheses, r.scores, strict=True)] for r in results])
json.dump(answers, sys.stdout)
