"""What `mkdocs` does besides: links to files of the repository outside docs/ become their paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


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
    return "".join(parts)
