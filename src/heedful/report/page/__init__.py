"""How a report looks: its pieces, charts and words, as HTML, as Markdown, and in short for a terminal."""
