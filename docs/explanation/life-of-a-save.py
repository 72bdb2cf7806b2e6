"""Draws life-of-a-save.svg beside itself. Run it again after a change."""

from pathlib import Path

WIDTH, HEIGHT = 960, 430
LEFT, LANE, BAR = 132, 62, 40
TRAIN, WAIT, COPY, STORE = "#2f6fb3", "#b3541e", "#2b7d62", "#6b4fa0"  # White text is legible on each.
QUIET = "#77849a"  # Legible on white and on black.

parts: list[str] = []


def text(x: float, y: float, label: str, fill: str = "#ffffff", anchor: str = "middle", size: int = 14) -> None:
    parts.append(f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}" font-size="{size}">{label}</text>')


def lane(number: int, *labels: str) -> float:
    top = 46 + number * LANE
    for line, label in enumerate(labels):
        text(LEFT - 14, top + BAR / 2 + 5 + (line - (len(labels) - 1) / 2) * 17, label, QUIET, "end")
    return top


def bar(top: float, begin: float, end: float, color: str, label: str = "") -> None:
    parts.append(f'<rect x="{begin}" y="{top}" width="{end - begin}" height="{BAR}" rx="5" fill="{color}"/>')
    if label:
        text((begin + end) / 2, top + BAR / 2 + 5, label)


def moment(x: float, label: str) -> None:
    parts.append(f'<line x1="{x}" y1="30" x2="{x}" y2="{HEIGHT - 52}" stroke="{QUIET}" stroke-width="1.5" stroke-dasharray="5 4"/>')
    text(x, 22, label, QUIET, size=15)


SAVE, RETURNED, FENCE, CAPTURED, UPDATED, WRITTEN, CLOSED, DURABLE = 140, 222, 470, 540, 612, 668, 780, 900

for x, label in ((RETURNED, "returned"), (CAPTURED, "captured"), (DURABLE, "durable")):
    moment(x, label)

top = lane(0, "training", "thread")
bar(top, SAVE, RETURNED - 2, WAIT, "Save()")
bar(top, RETURNED + 2, FENCE - 2, TRAIN, "forward, backward")
bar(top, FENCE, CAPTURED - 2, WAIT, "Fence()")
bar(top, CAPTURED + 2, UPDATED - 2, TRAIN, "update")
bar(top, UPDATED, 946, TRAIN, "forward, backward, update, ...")

top = lane(1, "windows", "filled, hashed")
bar(top, SAVE + 18, RETURNED - 2, COPY, "at save")
width = (CAPTURED - RETURNED - 4) / 6
for i in range(6):
    bar(top, RETURNED + 2 + i * width, RETURNED + (i + 1) * width, COPY, f"{i + 1}")

top = lane(2, "windows", "written")
width = (WRITTEN - 276) / 6
for i in range(6):
    bar(top, 276 + i * width, 274 + (i + 1) * width, STORE, f"{i + 1}")

top = lane(3, "end of file")
bar(top, WRITTEN, CLOSED - 2, STORE, "objects, index")

top = lane(4, "commit")
bar(top, CLOSED, DURABLE - 2, STORE, "fsync, rename")

top = 46 + 5 * LANE
parts.append(f'<line x1="{SAVE}" y1="{top + 12}" x2="940" y2="{top + 12}" stroke="{QUIET}" stroke-width="1.5"/>')
parts.append(f'<path d="M 940 {top + 6} l 12 6 l -12 6 z" fill="{QUIET}"/>')
for i, (color, label) in enumerate(((WAIT, "training waits"), (TRAIN, "training runs"), (COPY, "memory is read"), (STORE, "storage"))):
    x = SAVE + i * 180
    parts.append(f'<rect x="{x}" y="{top + 30}" width="16" height="16" rx="3" fill="{color}"/>')
    text(x + 24, top + 43, label, QUIET, "start")
text(LEFT - 14, top + 17, "time", QUIET, "end")

Path(__file__).with_suffix(".svg").write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif">\n'
    + "\n".join(parts)
    + "\n</svg>\n"
)
