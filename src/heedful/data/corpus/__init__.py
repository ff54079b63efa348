"""Running text to pretrain on: where it comes from, its documents and sentences, and its tokens on disk."""
