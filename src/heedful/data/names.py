"""The names that people give to columns of texts, pairs and labels."""

LABELS = ("label", "labels", "class", "category", "target", "sentiment", "stars", "rating", "score", "intent", "topic")
TEXTS = ("text", "sentence", "review", "content", "body", "comment", "message", "tweet", "document", "utterance")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("question", "answer"),
    ("query", "passage"),
)
KNOWN_NAMES = frozenset((*LABELS, *TEXTS, *(name for pair in PAIRS for name in pair), "id", "idx", "index", "split"))
