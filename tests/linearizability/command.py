"""`holdfast` as a module: `python -m tests.linearizability.command run …`."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
