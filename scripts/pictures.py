#!/usr/bin/env python3
"""Draws the pictures of docs/concepts.md into docs/images. They are readable in light and in dark, and made of nothing but SVG. With --check it says whether
what is there is what it would draw."""

import pathlib
import sys
from xml.sax.saxutils import escape

PLACE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"

STYLE = """
  text { font: 14px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #16202a; }
  .small { font-size: 12px; fill: #51606e; }
  .strong { font-weight: 600; }
  .ground { fill: #f7f9fb; }
  .box { fill: #ffffff; stroke: #8796a5; stroke-width: 1.3; }
  .soft { fill: #eaeff4; stroke: #c3cdd6; }
  .a { fill: #cfe3f7; stroke: #0b62a8; } .b { fill: #fbe0c4; stroke: #b24a00; } .c { fill: #cdeadf; stroke: #0d6e63; }
  .line { stroke: #51606e; stroke-width: 1.6; fill: none; } .faint { stroke-dasharray: 5 4; }
  .tip { fill: #51606e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eef4; } .small { fill: #a3b1be; } .ground { fill: #0f151b; }
    .box { fill: #18212a; stroke: #7c8b99; } .soft { fill: #212c36; stroke: #3c4a57; }
    .a { fill: #1f4468; stroke: #6cb6ff; } .b { fill: #5d3b16; stroke: #ffab70; } .c { fill: #1c4f40; stroke: #5fd3bc; }
    .line { stroke: #a3b1be; } .tip { fill: #a3b1be; }
  }"""


class Picture:
    """A drawing of some size, with words for who does not see it."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}\n</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<rect class="ground" width="{width}" height="{height}" rx="10"/>',
        ]

    def box(self, x, y, width, height, words="", kind="box", style=""):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        lines = words.split("\n") if words else []
        for place, line in enumerate(lines):
            at = y + height / 2 + 5 + (place - (len(lines) - 1) / 2) * 18
            self.text(x + width / 2, at, line, style, "middle")
        return self

    def text(self, x, y, words, style="", anchor="start"):
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text{kind} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>')
        return self

    def arrow(self, *points, kind="line"):
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>')
        return self

    def svg(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def model():
    """From a keyspace to nodes."""
    picture = Picture(860, 390, "A keyspace has blobs; a blob has a head and chunks; each lies in a partition; each partition is held by several nodes, one of which leads")
    picture.text(24, 34, "keyspace flights", "strong")
    picture.box(24, 46, 190, 316, kind="soft")
    for place, name in enumerate(["log", "grid/2013-01-01", "grid/2013-01-02", "counts"]):
        picture.box(40, 66 + place * 70, 158, 48, name)
    picture.text(258, 34, "blob grid/2013-01-01", "strong")
    picture.box(258, 46, 240, 316, kind="soft")
    picture.box(276, 66, 204, 62, "head: size, attributes,\nnumbers of writes", "box")
    for place, (name, kind) in enumerate([("chunk 0: bytes 0 to 64 MiB", "a"), ("chunk 1: 64 to 128 MiB", "b"), ("chunk 2: 128 to 192 MiB", "c")]):
        picture.box(276, 148 + place * 68, 204, 46, name, kind)
    picture.arrow((198, 160), (232, 160), (232, 97), (272, 97))
    picture.text(542, 34, "partitions, by a hash of the name", "strong")
    for place, (name, kind) in enumerate([("partition 17", "a"), ("partition 203", "b"), ("partition 88", "c")]):
        y = 148 + place * 68
        picture.box(542, y, 120, 46, name, kind)
        picture.arrow((480, y + 23), (538, y + 23))
    picture.arrow((480, 97), (600, 97), (600, 144))
    picture.text(700, 64, "nodes", "strong")
    for place in range(3):
        picture.box(700, 76 + place * 98, 136, 82, kind="box")
        picture.text(712, 98 + place * 98, f"node {place + 1}", "strong")
    for place, kinds in enumerate([("a", "c", "b"), ("b", "a", "c"), ("c", "b", "a")]):
        for at, kind in enumerate(kinds):
            picture.box(712 + at * 40, 110 + place * 98, 32, 32, "★" if at == 0 else "", kind)
    picture.text(768, 382, "★ leads the partition", "small", "middle")
    return picture


def write():
    """The way of a write of one blob."""
    picture = Picture(860, 350, "A client sends a write to the node that leads the blob's partition; that one logs it on all replicas at once, and answers when all have it on disk")
    picture.box(24, 120, 120, 60, "client", "box", "strong")
    picture.box(280, 120, 160, 60, "node 2 leads\nthe partition", "a")
    picture.box(620, 30, 180, 52, "node 1: replica", "a")
    picture.box(620, 126, 180, 52, "node 2: its own disk", "a")
    picture.box(620, 222, 180, 52, "node 3: replica", "a")
    picture.arrow((144, 138), (276, 138))
    picture.text(210, 128, "1  write", "", "middle")
    picture.arrow((280, 166), (148, 166))
    picture.text(210, 188, "4  done", "", "middle")
    for y in (46, 142, 238):
        picture.arrow((440, 146), (500, y), (616, y))
        picture.arrow((620, y + 20), (500, y + 20), (444, 160), kind="line faint")
    picture.text(556, 36, "2  to all at once", "", "middle")
    picture.text(556, 282, "3  it is on disk", "", "middle")
    picture.box(280, 206, 160, 56, "gives it a place in the\norder of the blob", "soft", "small")
    picture.text(24, 316, "A transaction over several blobs visits the nodes that lead their heads one after the other, in one order for all;", "small")
    picture.text(24, 334, "then everything goes out at once, and it is done when all of it is on disk everywhere.", "small")
    return picture


def failure():
    """What happens when a node dies."""
    picture = Picture(860, 300, "A node dies; after its lease has run out the cluster manager begins another epoch without it, another replica leads, and later the lost replica is made anew on another node")
    picture.arrow((40, 60), (830, 60))
    for x, when, what in [(90, "0 s", "node 2 dies"), (290, "about 3 s", "its lease is over,\nothers lead"), (520, "later", "it comes back and\ncopies what it missed"), (740, "after 10 min", "else: others get\nits replicas")]:
        picture.parts.append(f'<circle class="tip" cx="{x}" cy="60" r="5"/>')
        picture.text(x, 44, when, "strong", "middle")
        for place, line in enumerate(what.split("\n")):
            picture.text(x, 86 + place * 18, line, "small", "middle")
    rows = [("epoch 7", 40, 250, ["1", "2 ★", "3"], "b"), ("epoch 8", 290, 200, ["1 ★", "3"], "a"), ("epoch 9", 520, 310, ["1 ★", "3", "2 or 4"], "c")]
    for name, x, width, nodes, kind in rows:
        picture.box(x, 130, width, 110, kind="soft")
        picture.text(x + 12, 152, name, "strong")
        for place, node in enumerate(nodes):
            picture.box(x + 12 + place * 66, 170, 58, 48, node, kind if "★" in node else "box")
    picture.text(24, 268, "One partition. Whoever had seen an acknowledged write before sees it after: the replica that takes over had it,", "small")
    picture.text(24, 286, "or it was not acknowledged.", "small")
    return picture


PICTURES = {"model.svg": model, "write.svg": write, "failure.svg": failure}


def main():
    for name, draw in PICTURES.items():
        drawn, path = draw().svg(), PLACE / name
        if "--check" not in sys.argv[1:]:
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            return f"docs/images/{name} is not what scripts/pictures.py draws: run it"
    return 0


if __name__ == "__main__":
    sys.exit(main())
