"""The command line: one file per verb. Nothing heavy is imported until a verb needs it."""
