"""Goal: who installs the package gets five dependencies and what they asked for, and its page on
an index is readable.

The metadata is made anew, as for a wheel: that of the installed package may be older.
"""

import re
from pathlib import Path

import pytest
from hatchling import build
from markdown_it import MarkdownIt
from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# For work on Holdfast itself.
NOT_FOR_USERS = {"dev", "bench"}


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    monkeypatch.chdir(ROOT)
    folder = build.prepare_metadata_for_build_wheel(str(tmp_path))
    return Metadata.from_email((tmp_path / folder / "METADATA").read_bytes(), validate=True)


def requirements(metadata: Metadata, extra: str = "") -> set[str]:
    """What is installed with `extra`, or with none."""
    return {
        str(each).partition(";")[0]
        for each in metadata.requires_dist or []
        if each.marker is None or (extra and each.marker.evaluate({"extra": extra}))
    }


def test_without_extras_five_packages_are_needed(metadata: Metadata) -> None:
    needed = {Requirement(each).name for each in requirements(metadata)}
    assert needed == {"msgspec", "apsw", "click", "rich", "zstandard"}


def test_all_is_every_extra_for_users(metadata: Metadata) -> None:
    extras = set(metadata.provides_extra or []) - {"all"}
    assert extras > NOT_FOR_USERS
    every = [requirements(metadata, extra) for extra in extras - NOT_FOR_USERS]
    assert requirements(metadata, "all") == set().union(*every)


def test_the_page_on_an_index_is_the_readme_and_renders(metadata: Metadata) -> None:
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text("utf-8")
    page = MarkdownIt("gfm-like", {"linkify": False}).render(metadata.description)
    assert page.startswith("<h1>Holdfast</h1>")
    assert page.count("<h2>") == metadata.description.count("\n## ") > 5
    assert page.count("<table>") == 1
    prose = re.sub(r"<(code|pre)\b.*?</\1>", "", page, flags=re.DOTALL)
    left = re.findall(r"\]\(|```|\*\*|^#+ .*|^\|.*", prose, flags=re.MULTILINE)
    assert left == [], "not rendered"
