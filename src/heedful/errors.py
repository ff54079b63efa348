"""The two ways in which heedful can say no; the command line turns each into one sentence and an exit code."""


class RequestError(Exception):
    """What was asked for cannot be done as asked: names the file, line or key and the remedy. Exit code 2."""


class WorkError(Exception):
    """The request was right, but the work failed on the way (no disk space, no network). Exit code 1."""
