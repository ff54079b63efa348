"""Text to ids: WordPiece, byte-level BPE, characters; reading, training and saving a tokenizer."""

from heedful.text.characters import character_tokenizer
from heedful.text.files import read_tokenizer
from heedful.text.tokenizer import Tokenizer, Tokens
from heedful.text.training import train_bpe, train_wordpiece

__all__ = ["Tokenizer", "Tokens", "character_tokenizer", "read_tokenizer", "train_bpe", "train_wordpiece"]
