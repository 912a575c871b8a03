"""The style sheet of the pages, for light and dark screens, and the frame of a page."""

CSS = """
:root{color-scheme:light dark;--bg:#fafafa;--fg:#1b1f24;--dim:#667;--line:#d8dbe0;--card:#fff;
--blue:#2563eb;--red:#d1293d;--amber:#c77700;--green:#15803d;--teal:#0e7490;--violet:#7c3aed}
@media(prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e4e7eb;--dim:#99a;--line:#33383f;
--card:#1d2126;--blue:#6ea0ff;--red:#ff6b7a;--amber:#f0a63c;--green:#4cc27a;--teal:#4ec3d8;--violet:#a78bfa}}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px}
h1{margin:0;font-size:24px}h2{font-size:16px;margin:28px 0 8px}
header{border-left:4px solid var(--green);padding-left:14px}
header.failed{border-color:var(--red)}header.interrupted{border-color:var(--amber)}
header p{color:var(--dim);margin:4px 0}
code,pre{font:12.5px/1.45 ui-monospace,monospace}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px;
overflow-x:auto;margin:6px 0}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:8px 14px}
.tile span{display:block;color:var(--dim);font-size:12px}.tile b{font-size:17px}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px}
figcaption{font-size:13px;display:flex;justify-content:space-between}
figcaption b{font-weight:600}figcaption span{color:var(--dim)}
svg{width:100%;height:auto;display:block}svg text{font:10px system-ui,sans-serif;fill:var(--dim)}
.curve{fill:none;stroke:var(--blue);stroke-width:1.5;vector-effect:non-scaling-stroke}
.flight{fill:var(--teal);opacity:.5}
.axis{stroke:var(--line)}.mark{fill:var(--teal)}.restart{stroke:var(--red);stroke-dasharray:3 3}
.bar{fill:var(--blue);opacity:.75}.bar.died,.bar.failed{fill:var(--red)}
.bar.ended{fill:var(--amber)}.bar.finished{fill:var(--green)}.start{fill:var(--line)}
.legend{color:var(--dim);font-size:12px}.legend i{display:inline-block;width:10px;height:10px;
border-radius:2px;margin:0 4px 0 12px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;padding:4px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
tr.gone{color:var(--dim)}details{margin:4px 0}summary{cursor:pointer}em{color:var(--dim)}
""".replace("\n", "")


def document(title: str, body: str) -> str:
    """A whole page; ``title`` is HTML already."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{CSS}</style></head><body><main>{body}</main></body></html>\n"
    )
