"""What a run or a study found, for people: one HTML file that needs no network, and the same in Markdown."""
