"""What is shown of a log in which progress bars have drawn themselves."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("heliostat", reason="the module is Heliostat's own")

from heliostat.util.state.log_lines import Shown


def shown(*parts: str) -> str:
    lines = Shown()
    return b"".join([*(lines.take(part.encode()) for part in parts), lines.end()]).decode()


def state(x: int, *, closed: bool, uuid: str = "a") -> str:
    fields = {"x": x, "desc": "load", "total": 10, "unit": "it", "uuid": uuid, "closed": closed}
    return json.dumps({"__ray_tqdm_magic_token__": "", **fields}) + "\n"


@pytest.mark.contract("F6.18")
@pytest.mark.parametrize(
    ("parts", "expect"),
    [
        (("\r 0%\r 50%", "\r100%\nnext\n"), "100%\nnext\n"),
        (("\r 0%\r 50%",), " 50%"),
        (("\r 50%\r    \r\ndone\n",), " 50%\ndone\n"),
        (("dos\r\nunix\n\n\r\n",), "dos\nunix\n\n\n"),
        (("no ", "end"), "no end"),
        (("  \n\t\n",), "  \n\t\n"),
        (("a\n", state(1, closed=False), state(10, closed=True), "b\n"), "a\nload: 10/10 it\nb\n"),
        ((state(3, closed=False),), "load: 3/10 it\n"),
        (('{"x": 1}\n{half',), '{"x": 1}\n{half'),
    ],
)
def test_bars_say_their_last_state(parts: tuple[str, ...], expect: str) -> None:
    assert shown(*parts) == expect
    whole = "".join(parts)
    assert all(
        shown(whole[:at], whole[at:]) == expect for at in range(len(whole)) if "\r" not in whole
    )
