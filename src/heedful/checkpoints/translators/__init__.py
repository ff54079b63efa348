"""Translators on disk: our own layout, which can say every kind of model, and Marian's, which others read too."""

from heedful.checkpoints.translators.checkpoint import TranslationModel, TranslatorCheckpoint
from heedful.checkpoints.translators.directory import is_translator, read_translator, write_translator

__all__ = ["TranslationModel", "TranslatorCheckpoint", "is_translator", "read_translator", "write_translator"]
