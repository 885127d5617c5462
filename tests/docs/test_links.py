"""Goal: links between documents lead somewhere, and files that documents name exist."""

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, anchors_of, name_of, without_blocks

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`([\w./-]+\.(?:py|md|toml|txt)|[\w/-]+/)`")
SOURCE = ROOT / "src" / "holdfast"
# Names of a reader's own files, as examples use them.
EXAMPLES = {"fleet.py", "script.py", "fixed.py", "candidate.py", "old.py"}


def broken_links(document: Path, text: str) -> list[str]:
    """Every relative link of `text` without a file or heading behind it."""
    found = []
    for number, line in enumerate(without_blocks(text).splitlines(), start=1):
        for target in _LINK.findall(line):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            if not file.exists():
                found.append(f"{number}: no file {target}")
            elif anchor and anchor not in anchors_of(
                text if file == document else file.read_text("utf-8")
            ):
                found.append(f"{number}: no heading {target}")
    return found


def missing_files(text: str) -> list[str]:
    """Every file or folder named in `backticks` that neither repository nor package has.

    A name may be of the folder of a file that was named before it, under the same heading.
    """
    found = []
    folders = [ROOT, SOURCE]
    for number, line in enumerate(without_blocks(text).splitlines(), start=1):
        if line.startswith("#"):
            folders = [ROOT, SOURCE]
        for name in _FILE.findall(line):
            known = [folder / name for folder in folders if (folder / name).exists()]
            places = (path if path.is_dir() else path.parent for path in known)
            folders += [place for place in dict.fromkeys(places) if place not in folders]
            if not known and name not in EXAMPLES:
                found.append(f"{number}: no {name}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    assert broken_links(document, document.read_text("utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_named_files_exist(document: Path) -> None:
    assert missing_files(document.read_text("utf-8")) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    text = "# A title: it works\n\n[a](#a-title-it-works) [b](#nothing) [c](other.md)\n"
    document.write_text(text)
    assert broken_links(document, text) == ["3: no heading #nothing", "3: no file other.md"]


def test_a_missing_file_is_found() -> None:
    text = "See `errors.py`, `runtime/`, `docs/glossary.md`, `fleet.py` and `model/nothing.py`."
    assert missing_files(text) == ["1: no model/nothing.py"]
    assert missing_files("In `engine/port.py`, not in `urls.py`.\n# Other\n`urls.py`") == [
        "3: no urls.py"
    ]
