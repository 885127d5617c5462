"""The sentences of a port, read from its source: docstrings, and comments inside its classes."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

_NOT = "Not guaranteed:"
_HEADING = re.compile(r"Guaranteed by every \w+:")


class Sentences(NamedTuple):
    promised: list[str]
    not_promised: list[str]


def sentences_of(source: str) -> Sentences:
    promised: list[str] = []
    not_promised: list[str] = []
    tree = ast.parse(source)
    for text in [*_docstrings(tree), *_comments(source, tree)]:
        yes, _, no = text.partition(_NOT)
        promised += _split(_HEADING.sub("", yes))
        not_promised += _split(no)
    return Sentences(promised, not_promised)


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield text


def _comments(source: str, tree: ast.Module) -> Iterator[str]:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        inside = any(c.lineno <= token.start[0] <= (c.end_lineno or 0) for c in classes)
        if token.type == tokenize.COMMENT and inside:
            yield token.string.lstrip("# ")


def _split(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each cut where a sentence or a half of one ends."""
    for chunk in re.split(r"\n\s*\n|\n\s*(?=- )", text):
        for sentence in re.split(r"(?<=[.;])\s+", " ".join(chunk.split()).removeprefix("- ")):
            if sentence.strip(" .;"):
                yield sentence.strip(" .;")


def unclaimed(sentences: list[str], quotes: list[str]) -> list[str]:
    """Every sentence of which no quote is a part."""
    return [each for each in sentences if not any(quote in each for quote in quotes)]


def astray(sentences: list[str], quotes: list[str]) -> list[str]:
    """Every quote that is a part of no sentence, or of several."""
    return [quote for quote in quotes if sum(quote in each for each in sentences) != 1]
