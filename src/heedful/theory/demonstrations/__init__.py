"""One demonstration a file, which ends with `DEMONSTRATION = Demonstration(…)`; a new one is a new file here."""
