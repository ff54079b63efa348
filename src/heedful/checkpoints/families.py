"""The families that can be read and written, by `model_type`."""

from heedful.checkpoints.bert import BERT
from heedful.checkpoints.dialect import Family
from heedful.checkpoints.distilbert import DISTILBERT
from heedful.checkpoints.gpt2 import GPT2
from heedful.checkpoints.roberta import ROBERTA

FAMILIES: dict[str, Family] = {family.name: family for family in (BERT, ROBERTA, DISTILBERT, GPT2)}
