"""The `holdfast` command on a machine without numpy and numba:
`python -m tests.compiled.numberless state …`."""

import sys

if __name__ == "__main__":
    for name in ("numpy", "numba", "llvmlite"):
        sys.modules[name] = None  # type: ignore[assignment]
    from holdfast.cli.main import main

    main()
