"""`python -m robustboard` is the command `robustboard`."""

from robustboard.cli import main

main()
