"""A small file of the form of StereoSet."""

from typing import Any


def stereoset(context: str, target: str, *sentences: str, kind: str = "profession") -> dict[str, Any]:
    labels = ("stereotype", "anti-stereotype", "unrelated")
    listed = [{"id": "x", "sentence": s, "gold_label": g} for s, g in zip(sentences, labels, strict=True)]
    return {"id": "i", "target": target, "bias_type": kind, "context": context, "sentences": listed[::-1]}


STEREOSET: dict[str, Any] = {
    "version": "1.0",
    "data": {
        "intrasentence": [
            stereoset("the nurse is BLANK.", "nurse", "the nurse is kind.", "the nurse is fixing.", "the nurse is a."),
            stereoset("BLANK was late", "he", "clever was late", "Old was late", "the was late", kind="gender"),
            stereoset("a BLANK said", "man", "the doctor, said", "a woman said", "a car said"),  # not quite its context
        ],
        "intersentence": [
            stereoset("the man is a doctor.", "man", "he is kind.", "he is late.", "the car was old.", kind="gender"),
        ],
    },
}  # fmt: skip
