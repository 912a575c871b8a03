"""What `mkdocs` does besides.

Links to files of the repository outside docs/ become their paths. ``llms.txt`` lists all pages for programs
that read, ``llms-full.txt`` has their text. Addresses come from the environment, for the repository knows
none of its own: REPOSITORY_URL gives every page a link to edit it, SITE_URL the sitemap its addresses, and
SITE_VERSION a menu of versions, for which ``xtask/site_versions.py`` puts sites side by side.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)

# Text of each page, by the path of its source.
_texts: dict[str, str] = {}


def on_config(config: Any, **_: Any) -> Any:
    """What the environment says of where the site will lie."""
    root = Path(config["config_file_path"]).parent
    version = re.search(r'^version = "(.*)"', (root / "Cargo.toml").read_text(), re.MULTILINE)
    config["copyright"] = f"Heliostat {version[1] if version else ''}, Apache-2.0"
    config["site_url"] = os.environ.get("SITE_URL", "")
    if repository := os.environ.get("REPOSITORY_URL", "").rstrip("/"):
        config["repo_url"] = repository
        config["repo_name"] = "/".join(repository.split("/")[-2:])
        config["edit_uri"] = "edit/main/docs/"
    if os.environ.get("SITE_VERSION"):
        config["extra"]["version"] = {"provider": "mike"}  # the theme's name for a menu of versions
    return config


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The text of a page as it is shown."""
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(docs) or not target.exists():
            return found[0]
        path = f"`{target.relative_to(docs.parent)}`"
        return path if found[1].strip("`") in path else f"{found[1]} ({path})"

    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(shown, part) for part in parts[::2]]
    text = "".join(parts)
    _texts[page.file.src_uri] = text
    return text


def on_post_build(*, config: Any, **_: Any) -> None:
    """The pages for programs that read."""
    site, base = Path(config["site_dir"]), config["site_url"] or ""
    lines, whole = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""], []
    for title, pages in _parts(config["nav"]):
        lines += [f"## {title}", ""]
        for page in pages:
            text = _texts[page]
            name = re.search(r"^# (.*)$", text, re.MULTILINE)
            address = base + page.removesuffix(".md") + ".html"
            lines.append(f"- [{name[1] if name else page}]({address}): {_first_sentence(text)}")
            # Pages of names are made of docstrings, which are not in their source.
            if not page.startswith("api/"):
                whole.append(text)
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines))
    (site / "llms-full.txt").write_text("\n\n".join(whole))


def _parts(nav: list[Any]) -> list[tuple[str, list[str]]]:
    """Parts of the navigation, each with its pages."""
    alone = [entry for entry in nav if isinstance(entry, str)]
    named = [
        (title, list(_pages(entries)))
        for entry in nav
        if isinstance(entry, dict)
        for title, entries in entry.items()
    ]
    return [("Start", alone), *named]


def _pages(entries: list[Any]) -> Iterator[str]:
    """The pages of a part, those of its groups among them."""
    for entry in entries:
        if isinstance(entry, dict):
            for below in entry.values():
                yield from _pages(below)
        else:
            yield entry


def _first_sentence(text: str) -> str:
    """What a page says first, in one line of plain text."""
    body = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", body):
        line = " ".join(paragraph.split())
        if line and not line.startswith(("#", "|", ">", "!", ":::", "<")):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
            return re.split(r"(?<=[.!?]) ", plain)[0].rstrip(":")
    return ""
