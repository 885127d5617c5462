"""Goal: no file past 400 lines, no function past 70: beyond it the design asks for a new noun."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


def oversized(source: Path) -> list[str]:
    """One line for every file and function under `source` that is too long."""
    found = []
    for file in sorted(source.rglob("*.py")):
        text = file.read_text("utf-8")
        path = file.relative_to(source)
        lines = len(text.splitlines())
        if lines > FILE_LINES_MAX:
            found.append(f"{path}: {lines} lines, more than {FILE_LINES_MAX}")
        for node in ast.walk(ast.parse(text, str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found.append(
                        f"{path}:{node.lineno}: {node.name} has {length} lines, "
                        f"more than {FUNCTION_LINES_MAX}"
                    )
    return found


def test_files_and_functions_stay_small() -> None:
    assert list(SOURCE.rglob("*.py")), "nothing was checked"
    assert oversized(SOURCE) == []


def test_the_longest_allowed_pass(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("x = 1\n" * FILE_LINES_MAX)
    (tmp_path / "function.py").write_text(function("f", FUNCTION_LINES_MAX))
    assert oversized(tmp_path) == []


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file.py").write_text("x = 1\n" * (FILE_LINES_MAX + 1))
    assert oversized(tmp_path) == ["deep/file.py: 401 lines, more than 400"]


def test_a_long_function_is_found(tmp_path: Path) -> None:
    method = "class C:\n" + "".join(
        f"    {line}\n" for line in function("f", FUNCTION_LINES_MAX + 1).splitlines()
    )
    (tmp_path / "method.py").write_text(method)
    (tmp_path / "plain.py").write_text("async " + function("g", FUNCTION_LINES_MAX + 1))
    assert oversized(tmp_path) == [
        "method.py:2: f has 71 lines, more than 70",
        "plain.py:1: g has 71 lines, more than 70",
    ]


def function(name: str, lines: int) -> str:
    return f"def {name}():\n" + "    x = 1\n" * (lines - 1)
