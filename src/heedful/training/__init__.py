"""The loop: batches, optimiser, schedule, exact resume, and what a run leaves behind."""
