"""The sections of reports: small functions that read a run or a study and say one thing, or return None."""
