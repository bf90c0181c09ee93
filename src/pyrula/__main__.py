"""`python -m pyrula` is the command line."""

from pyrula.cli.main import main

if __name__ == "__main__":
    main()
