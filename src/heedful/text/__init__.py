"""Text to ids: WordPiece, BPE, SentencePiece, characters; reading, training and saving a tokenizer, or a pair."""

from heedful.text.characters import character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.pairs import PairTokenizer, read_pair_tokenizer, train_pair_tokenizer
from heedful.text.tokenizer import Tokenizer, Tokens
from heedful.text.training import train_bpe, train_wordpiece

__all__ = [
    "PairTokenizer",
    "Tokenizer",
    "Tokens",
    "character_tokenizer",
    "read_pair_tokenizer",
    "read_tokenizer",
    "train_bpe",
    "train_pair_tokenizer",
    "train_wordpiece",
]
