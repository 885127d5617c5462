"""The documents under test: their code blocks, tables and links, read from Markdown as written."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/*.md")),
]

FILE = "# file: "
_FENCE = re.compile(r"^```(\w*)\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line of its first line (from 1), and its lines."""

    language: str
    line: int
    lines: tuple[str, ...]


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks_of(text: str) -> list[Block]:
    """Every fenced block. An unclosed one is an error: half of a document would go unchecked."""
    found: list[Block] = []
    language: str | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if language is None:
            if fence:
                language, lines = fence[1], []
        elif line.rstrip() == "```":
            found.append(Block(language, number - len(lines), tuple(lines)))
            language = None
        else:
            lines.append(line)
    if language is not None:
        raise ValueError(f"a ```{language} block is not closed")
    return found


def without_blocks(text: str) -> str:
    """The prose, with the lines of code blocks blank, so that line numbers stay."""
    lines = text.splitlines()
    for block in blocks_of(text):
        for number in range(block.line - 2, block.line + len(block.lines)):
            lines[number] = ""
    return "\n".join(lines)


def files_of(text: str) -> dict[str, str]:
    """Python blocks that begin with `# file: NAME` are whole programs of that name."""
    return {
        block.lines[0].removeprefix(FILE).strip(): "\n".join(block.lines) + "\n"
        for block in blocks_of(text)
        if is_file(block)
    }


def is_file(block: Block) -> bool:
    return block.language == "python" and block.lines[:1] != () and block.lines[0].startswith(FILE)


def program_of(text: str) -> str:
    """The other Python blocks as one program, each line where it stands in the document."""
    lines = [""] * len(text.splitlines())
    for block in blocks_of(text):
        if block.language == "python" and not is_file(block):
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
    return "\n".join(lines).rstrip() + "\n"


def commands_of(text: str) -> list[tuple[int, str]]:
    """Lines behind a `$ ` in console blocks, with their line numbers."""
    return [
        (block.line + offset, line.removeprefix("$ "))
        for block in blocks_of(text)
        if block.language == "console"
        for offset, line in enumerate(block.lines)
        if line.startswith("$ ")
    ]


def tables_of(text: str) -> list[list[list[str]]]:
    """Every Markdown table as rows of cells; the header is the first row."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in without_blocks(text).splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not inside:
            tables.append([])
            inside = True
        if not all(set(cell) <= {"-", ":"} for cell in cells):
            tables[-1].append(cells)
    return tables


def anchors_of(text: str) -> set[str]:
    """The names under which the headings of a document can be linked to."""
    found: set[str] = set()
    for line in without_blocks(text).splitlines():
        if line.startswith("#"):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found
