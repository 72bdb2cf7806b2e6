#!/usr/bin/env python3
"""Fails when a link of the documentation leads nowhere. Looks at files only, never at the network.

Usage: links.py ROOT [SITE]

Checks the Markdown pages of the tree ROOT: each relative target exists, inside ROOT, and where it names an anchor of a Markdown
page, that page has such a heading. With SITE, a folder of HTML, the same for what its pages refer to.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PAGES = ["*.md", "docs/**/*.md", "spec/*.md", "bench/*.md"]


def without_code(text: str) -> str:
    """The text with blanks in the place of code: positions stay."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found.group())

    text = re.sub(r"^(`{3,}|~{3,}).*?^\1`*$", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", blank, text)


def markdown_anchors(text: str) -> set[str]:
    """The anchors that GitHub and myst-parser give to headings."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*?)#*$", re.sub(r"^(`{3,}).*?^\1`*$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        name, count = slug, 0
        while name in anchors:
            count += 1
            name = f"{slug}-{count}"
        anchors.add(name)
    return anchors


def markdown_links(text: str) -> list[tuple[int, str]]:
    plain = without_code(text)
    found = [(match.start(), match[1]) for match in re.finditer(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", plain)]
    found += [(match.start(), match[1]) for match in re.finditer(r"^\[[^\]]+\]:\s*(\S+)", plain, re.MULTILINE)]
    # Directives of the site: pages of a toctree, images.
    for fence in re.finditer(r"^```\{(toctree|image|figure)\}(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        if fence[1] != "toctree":
            found.append((fence.start(), fence[2].strip()))
            continue
        for line in fence[3].splitlines():
            if line and not line.startswith(":"):
                found.append((fence.start(), "toctree:" + line.strip()))
    return [(text.count("\n", 0, at) + 1, target) for at, target in found]


def check_tree(root: Path) -> tuple[int, list[str]]:
    root = root.resolve()
    broken, count = [], 0
    for page in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        text = page.read_text()
        for line, target in markdown_links(text):
            count += 1
            why = fault(root, page, target)
            if why:
                broken.append(f"{page.relative_to(root)}:{line}: {target.removeprefix('toctree:')}: {why}")
    return count, broken


def fault(root: Path, page: Path, target: str) -> str | None:
    if target.startswith("toctree:"):
        entry = page.parent / target.removeprefix("toctree:")
        return None if any(entry.with_name(entry.name + end).exists() for end in (".md", ".rst")) else "no such page"
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return None if url.scheme in ("https", "mailto") else "neither relative nor https"
    file = (page.parent / unquote(url.path)).resolve() if url.path else page
    if not file.exists():
        return "no such file"
    if root not in [file, *file.parents]:
        return "outside the tree"
    if url.fragment and file.suffix == ".md" and url.fragment not in markdown_anchors(file.read_text()):
        return "the page has no such heading"
    return None


class Html(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[int, str]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value and tag != "base":
                self.targets.append((self.getpos()[0], value))


def check_site(site: Path) -> tuple[int, list[str]]:
    pages = {page: Html(page) for page in sorted(site.resolve().glob("**/*.html"))}
    broken, count = [], 0
    for page, html in pages.items():
        for line, target in html.targets:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            count += 1
            file = (page.parent / unquote(url.path)).resolve() if url.path else page
            if not file.exists():
                broken.append(f"{page}:{line}: {target}: no such file")
            elif url.fragment and file in pages and unquote(url.fragment) not in pages[file].anchors:
                broken.append(f"{page}:{line}: {target}: the page has no such anchor")
    return count, broken


def main(root: str, site: str | None = None) -> int:
    count, broken = check_tree(Path(root))
    if site is not None:
        more, also = check_site(Path(site))
        count, broken = count + more, broken + also
    print("\n".join([*broken, f"{count} links, {len(broken)} broken"]))
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
