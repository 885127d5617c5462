"""The `holdfast` command as a module: `python -m tests.kills.holdfast_command run …`."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
