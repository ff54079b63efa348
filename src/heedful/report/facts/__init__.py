"""What a report is about, before anything is drawn: the numbers of a run, and the runs of a study compared."""
