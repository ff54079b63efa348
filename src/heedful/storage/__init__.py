"""What stands on disk, in and out: files and directories that appear whole or not at all, locks, and the files of runs
and studies read back. A leaf: it imports `errors` alone."""
