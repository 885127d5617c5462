"""The `holdfast` command on a machine without numpy and numba:
`python -m tests.compiled.numberless state …`. Processes that it starts have none either."""

import sys

if __name__ in ("__main__", "__mp_main__"):
    for name in ("numpy", "numba", "llvmlite"):
        sys.modules[name] = None  # type: ignore[assignment]

if __name__ == "__main__":
    from holdfast.cli.main import main

    main()
