"""Writes the drawings of ``docs/guide/what-runs-where.md``: ``docs/images/drawing-*.svg``.

``python xtask/drawings.py`` writes them; ``--check`` says whether they are up to date. A drawing is boxes,
texts and arrows on a ground of its own, so that it is read on light pages and on dark ones.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"

GROUND, INK, FAINT = "#fbfbfd", "#1f2933", "#7b8794"
# Fill and edge of each kind of box.
KINDS = {
    "machine": ("#eef1f6", "#b8c2d0"),
    "yours": ("#dcebff", "#4a86d8"),
    "daemon": ("#e3f4e3", "#4d9a57"),
    "control": ("#ffe9cf", "#d08a2e"),
    "store": ("#f3e4fb", "#9a5fc0"),
    "worker": ("#ffffff", "#5b6b7f"),
}


class Drawing:
    """A picture that grows by boxes, texts and arrows; places are in pixels from the top left."""

    def __init__(self, width: int, height: int, says: str) -> None:
        self.parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" role="img" font-family="system-ui, sans-serif">'
            ),
            f"<title>{escape(says)}</title>",
            (
                '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
                'markerHeight="7" orient="auto-start-reverse">'
                f'<path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
            ),
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
        ]

    def text(self, x: int, y: int, said: str, size: int = 13, **look: str) -> None:
        style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in look.items())
        fill = "" if "fill" in look else f' fill="{INK}"'
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}"{fill}{style}>{escape(said)}</text>'
        )

    def box(self, kind: str, x: int, y: int, width: int, height: int, *lines: str) -> None:
        """A box; its first line is its name, in bold."""
        fill, edge = KINDS[kind]
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
            f'stroke="{edge}" stroke-width="1.5"/>'
        )
        top = y + height // 2 - 8 * (len(lines) - 1) + 5
        for n, line in enumerate(lines):
            look = {"font_weight": "600"} if n == 0 else {"fill": "#52606d"}
            self.text(
                x + width // 2,
                top + 16 * n,
                line,
                13 if n == 0 else 12,
                text_anchor="middle",
                **look,
            )

    def machine(self, x: int, y: int, width: int, height: int, name: str) -> None:
        """A machine, which other boxes are drawn into."""
        self.box("machine", x, y, width, height)
        self.text(x + 14, y + 24, name, 14, font_weight="600")

    def arrow(self, *places: tuple[int, int], both: bool = False) -> None:
        """A line from place to place with a head at its end, or at both."""
        path = " ".join(f"{'M' if n == 0 else 'L'}{x} {y}" for n, (x, y) in enumerate(places))
        begin = ' marker-start="url(#head)"' if both else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.4"{begin} '
            'marker-end="url(#head)"/>'
        )

    def note(self, x: int, y: int, *lines: str, anchor: str = "start") -> None:
        """Words beside an arrow."""
        for n, line in enumerate(lines):
            self.text(x, y + 15 * n, line, 12, fill="#3e4c59", text_anchor=anchor)

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def laptop() -> Drawing:
    """One program on one machine."""
    d = Drawing(
        720, 250, "One machine: a driver, a node with its daemon and store, and three workers"
    )
    d.machine(16, 16, 688, 218, "your machine: one node, which is also the head")
    d.box("yours", 40, 60, 150, 70, "driver", "python script.py")
    d.box("daemon", 280, 60, 180, 70, "daemon", "starts and watches", "workers")
    d.box("store", 280, 152, 180, 62, "object store", "shared memory")
    for n in range(3):
        d.box("worker", 540, 56 + 58 * n, 140, 46, f"worker {n + 1}", "runs your functions")
    d.arrow((190, 95), (280, 95), both=True)
    for n in range(3):
        d.arrow((460, 95), (540, 79 + 58 * n))
    d.arrow((115, 130), (115, 183), (280, 183), both=True)
    d.note(196, 86, "one socket")
    d.note(124, 174, "reads without a copy")
    return d


def cluster() -> Drawing:
    """Three machines and a driver elsewhere."""
    d = Drawing(
        860, 400, "Three machines: the head with the control service, and two nodes that joined it"
    )
    d.machine(16, 120, 260, 264, "first machine: the head")
    d.box("control", 36, 156, 220, 58, "control service", "who is there, names, groups")
    d.box("daemon", 36, 228, 104, 58, "daemon")
    d.box("store", 152, 228, 104, 58, "store")
    d.box("yours", 36, 300, 104, 64, "driver")
    d.box("worker", 152, 300, 104, 64, "workers")
    for n, name in enumerate(("second machine: a node", "third machine: a node")):
        left = 320 + 270 * n
        d.machine(left, 120, 252, 264, name)
        d.box("daemon", left + 18, 156, 216, 58, "daemon", "one port for everything")
        d.box("store", left + 18, 228, 216, 58, "store")
        d.box("worker", left + 18, 300, 102, 64, "worker", "a task")
        d.box("worker", left + 132, 300, 102, 64, "worker", "an actor")
    d.arrow((338, 178), (256, 178), both=True)
    d.arrow((240, 156), (240, 104), (812, 104), (812, 156), both=True)
    d.box("yours", 36, 20, 220, 58, "driver on a laptop", 'ray.init("ray://HEAD:10001")')
    d.arrow((222, 78), (222, 156), both=True)
    d.note(
        290,
        40,
        "Drivers say what is to run, workers run it. Each machine is a node: a daemon, a store,",
    )
    d.note(
        290,
        56,
        "workers. The head is the node that also has the control service. Objects and calls go",
    )
    d.note(290, 72, "from node to node; the head is asked for what concerns all.")
    d.arrow((536, 257), (608, 257), both=True)
    return d


def call() -> Drawing:
    """The way of a call and of its value."""
    d = Drawing(
        820,
        330,
        "A call goes from the driver to a worker that the daemon lent; its value comes back",
    )
    d.machine(16, 16, 380, 298, "the driver's node")
    d.machine(424, 16, 380, 298, "another node")
    d.box("yours", 40, 56, 150, 74, "driver", "f.remote(x)", "owns the reference")
    d.box("daemon", 240, 56, 132, 74, "daemon")
    d.box("daemon", 448, 56, 132, 74, "daemon")
    d.box("worker", 640, 56, 140, 74, "worker", "runs f(x)")
    d.box("store", 240, 228, 132, 62, "store", "a copy")
    d.box("store", 448, 228, 132, 62, "store", "f's value, if large")
    d.arrow((190, 80), (240, 80))
    d.note(210, 72, "1")
    d.arrow((372, 93), (448, 93))
    d.note(392, 84, "2")
    d.arrow((580, 93), (640, 93))
    d.arrow((115, 130), (115, 180), (700, 180), (700, 130), both=True)
    d.note(
        132,
        172,
        "3 the call goes straight to the worker; 4 a value of up to 100 KiB comes straight back",
    )
    d.arrow((720, 130), (720, 259), (580, 259))
    d.arrow((448, 259), (372, 259))
    d.note(404, 250, "5")
    d.arrow((240, 259), (80, 259), (80, 130))
    d.note(92, 250, "6 ray.get reads it")
    return d


def life() -> Drawing:
    """What ends with what."""
    d = Drawing(760, 216, "What ends with the driver, and what outlives it")
    d.box("yours", 24, 24, 200, 56, "driver ends")
    d.box("worker", 284, 24, 200, 56, "its tasks", "are cancelled")
    d.box("worker", 284, 92, 200, 56, "its actors", "end")
    d.box("store", 284, 160, 200, 44, "its objects", "are freed")
    d.box("worker", 536, 24, 200, 56, "detached actors", "stay")
    d.box("control", 536, 92, 200, 56, "jobs, Serve's applications", "stay")
    d.box("daemon", 536, 160, 200, 44, "the cluster", "stays, if started by hand")
    for y in (52, 120, 182):
        d.arrow((224, 52), (254, 52), (254, y), (284, y))
    return d


DRAWINGS = {"laptop": laptop, "cluster": cluster, "call": call, "life": life}


def main() -> int:
    """Write the drawings, or check them."""
    stale = []
    for name, draw in DRAWINGS.items():
        path, wanted = IMAGES / f"drawing-{name}.svg", draw().svg()
        if not path.exists() or path.read_text() != wanted:
            stale.append(path)
            if "--check" not in sys.argv[1:]:
                path.write_text(wanted)
    if "--check" in sys.argv[1:] and stale:
        print(f"{', '.join(map(str, stale))}: run python xtask/drawings.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
