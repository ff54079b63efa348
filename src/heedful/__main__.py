"""`python -m heedful` is the command `heedful`."""

from heedful.cli.main import main

main()
