"""The command line: `pyrula`."""
