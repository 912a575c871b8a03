"""The pages of the API: every public name is there, is what it says, and has a docstring."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.modules import loaded

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/api").rglob("*.md"))

# Modules whose names are those of modules below or beside them.
ALSO = [
    "data.preprocessors",
    "data.datasource",
    "data.aggregate",
    "data.expressions",
    "train.torch",
    "air",
]

pytestmark = pytest.mark.heliostat_only("they are our pages")


def sections() -> dict[str, str]:
    """What the pages say of each module; a large one is on several."""
    found: dict[str, str] = {}
    for page in PAGES:
        parts = re.split(r"^## `(heliostat[\w.]*)`$", page.read_text(), flags=re.MULTILINE)
        for module, text in zip(parts[1::2], parts[2::2], strict=True):
            found[module] = found.get(module, "") + text
    return found


SECTIONS = sections()


def described(module: str) -> list[str]:
    """The names with a description, as the pages write them."""
    return re.findall(r"^::: (heliostat[\w.]*)$", SECTIONS[module], re.MULTILINE)


def found_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def names_of_ray() -> dict[str, list[str]]:
    """The public names of Ray by module, from the test that has them."""
    path = ROOT / "tests/api/test_names.py"
    module = loaded(path)
    return {
        name.replace("ray", "heliostat", 1): [n for n in names.split() if not n.startswith("__")]
        for name, names in module.NAMES.items()
    }


NAMES = names_of_ray()


def test_every_module_has_a_section() -> None:
    wanted = {*NAMES, "heliostat.data", "heliostat.train", *(f"heliostat.{name}" for name in ALSO)}
    assert wanted <= set(SECTIONS)


@pytest.mark.parametrize("module", SECTIONS)
def test_a_section_has_the_names_of_its_module(module: str) -> None:
    if module.startswith(("heliostat.train.", "heliostat.data")):
        pytest.importorskip("pyarrow")
    if module.startswith("heliostat.rllib"):
        pytest.importorskip("torch")
        pytest.importorskip("gymnasium")
    try:
        space = importlib.import_module(module)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    text = SECTIONS[module]
    own = [path.removeprefix(f"{module}.") for path in described(module)]
    links = re.findall(r"^- \[`(\w+)`\]\[([\w.]+)\]$", text, re.MULTILINE)
    values = re.findall(r"^- `(\w+)`: .", text, re.MULTILINE)
    listed = [*own, *(name for name, _ in links), *values]
    public = {*NAMES.get(module, []), *getattr(space, "__all__", [])}
    assert sorted(listed) == sorted(public)
    for name, target in links:
        assert getattr(space, name) is found_at(target), name
    for name, value in re.findall(r"^- `(\w+)`: `('.*'|\d+)`$", text, re.MULTILINE):
        assert repr(getattr(space, name)) == value, name


def test_what_is_linked_is_described() -> None:
    paths = {path for module in SECTIONS for path in described(module)}
    for module, text in SECTIONS.items():
        for target in re.findall(r"\]\[(heliostat[\w.]+)\]", text):
            assert target in paths, f"{module}: {target}"


def test_what_is_described_has_a_docstring() -> None:
    griffe = pytest.importorskip("griffe", reason="mkdocstrings is not installed")
    extensions = griffe.load_extensions(ROOT / "xtask/docs_extension.py")
    loader = griffe.GriffeLoader(
        search_paths=[ROOT / "python"], allow_inspection=False, extensions=extensions
    )
    loader.load("heliostat")
    loader.resolve_aliases(implicit=True, external=False)
    silent = []
    for path in [path for module in SECTIONS for path in described(module)]:
        thing = loader.modules_collection[path]
        thing = thing.final_target if thing.is_alias else thing
        methods = thing.members.values() if thing.is_class else []
        for part in [thing, *(m for m in methods if m.is_function and m.name[0] != "_")]:
            if part.docstring is None or not part.docstring.value.strip():
                silent.append(part.path)
            else:
                assert not re.search(r":[a-z]+:`", part.docstring.value), part.path
    assert not silent
