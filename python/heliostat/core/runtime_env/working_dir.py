"""The choice of the files of a folder that become the ``working_dir`` of a job, as the folder is at
``init``.

What is edited or deleted afterwards changes nothing for the workers. Left out is what ``.gitignore`` and
``.rayignore`` name, at any depth, what ``excludes`` names in the same syntax, and the setting
``OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from heliostat.core.platform import settings
from heliostat.core.runtime_env.file_trees import TreeEntry

_FILES = (".gitignore", ".rayignore")


@dataclass(frozen=True)
class _Rule:
    """A line of an ignore file, for paths below the folder it stands in."""

    base: str
    pattern: re.Pattern[str]
    folders_only: bool
    includes: bool  # `!`: what earlier lines left out is taken after all


def found(source: Path, excludes: Iterable[str], field: str = "working_dir") -> list[TreeEntry]:
    """The files and folders of a folder that are not left out; a folder comes before what is in it.

    Raises ``ValueError`` when that takes more than the setting ``max_grpc_message_size``.
    """
    rules = _rules("", [*_excluded(), *excludes])
    try:
        return list(_walk(source, "", rules, [_size_max()], frozenset()))
    except _TooLarge:
        raise ValueError(
            f"runtime_env[{field!r}]: the folder {source} has more than {_size_max() >> 20} MiB. Leave "
            "files out with a .gitignore or .rayignore file in it, or with the field 'excludes' of the "
            "runtime_env."
        ) from None


def copy(source: Path, target: Path, excludes: Iterable[str], field: str = "working_dir") -> None:
    """Copy what is not left out into a folder that is there. Raises as :func:`found`."""
    import shutil  # it loads libraries of compression

    for one in found(source, excludes, field):
        if one.is_folder:
            (target / one.name).mkdir()
        else:
            shutil.copy2(one.path, target / one.name)


class _TooLarge(Exception):
    """More is to be copied than may be."""


def _excluded() -> list[str]:
    names = settings.text("OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES").split(",")
    return [name for name in names if name.strip()]


def _size_max() -> int:
    return settings.whole("max_grpc_message_size") or sys.maxsize


def _walk(
    source: Path,
    at: str,
    rules: list[_Rule],
    left: list[int],
    above: frozenset[str],
) -> Iterator[TreeEntry]:
    """`left` holds how many bytes there may still be; `above` are the folders on the way here."""
    real = os.path.realpath(source)
    if real in above:
        return  # a link to a folder that it lies in
    use_gitignore = not settings.flag("RUNTIME_ENV_IGNORE_GITIGNORE")
    for name in _FILES[0 if use_gitignore else 1 :]:
        if (source / name).is_file():
            rules = rules + _rules(at, (source / name).read_text().splitlines())
    with os.scandir(source) as entries:
        sorted_entries = sorted(entries, key=lambda entry: entry.name)
    for entry in sorted_entries:
        name = f"{at}{entry.name}"
        if _is_left_out(name, entry.is_dir(), rules):
            continue
        if entry.is_dir():
            yield TreeEntry(name, Path(entry.path), True)
            yield from _walk(Path(entry.path), f"{name}/", rules, left, above | {real})
        elif entry.is_file():
            left[0] -= entry.stat().st_size
            if left[0] < 0:
                raise _TooLarge
            yield TreeEntry(name, Path(entry.path), False)


def _is_left_out(path: str, is_folder: bool, rules: list[_Rule]) -> bool:
    left_out = False
    for rule in rules:
        if rule.folders_only and not is_folder:
            continue
        if path.startswith(rule.base) and rule.pattern.fullmatch(path[len(rule.base) :]):
            left_out = not rule.includes
    return left_out


def _rules(base: str, lines: Iterable[str]) -> list[_Rule]:
    rules = []
    for raw in lines:
        line = raw.rstrip("\n\r ")
        if not line or line.startswith("#"):
            continue
        includes, line = line.startswith("!"), line.removeprefix("!")
        folders_only, line = line.endswith("/"), line.rstrip("/")
        if not line:
            continue
        # With a slash before its end a pattern counts from the folder of its file; else at any depth.
        anywhere = "" if "/" in line else "(?:.*/)?"
        pattern = re.compile(anywhere + _expression(line.removeprefix("/")), re.DOTALL)
        rules.append(_Rule(base, pattern, folders_only, includes))
    return rules


def _expression(pattern: str) -> str:
    """A pattern of gitignore as a regular expression."""
    parts = []
    at = 0
    while at < len(pattern):
        rest = pattern[at:]
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            at += 3
        elif rest.startswith("**"):
            parts.append(".*")
            at += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            at += 1
        elif rest[0] == "?":
            parts.append("[^/]")
            at += 1
        elif found := re.match(r"\[(!?)([^\]]+)\]", rest):
            parts.append(f"[{'^' if found[1] else ''}{found[2]}]".replace("\\", "\\\\"))
            at += found.end()
        else:
            at += rest[0] == "\\" and len(rest) > 1
            parts.append(re.escape(pattern[at]))
            at += 1
    return "".join(parts)
