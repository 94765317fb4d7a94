"""The command line: `main.py` lists the commands, each has its file."""
