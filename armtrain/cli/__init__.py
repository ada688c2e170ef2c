"""The command line: one verb a file, each with `add_parser` and `run`."""
