#!/usr/bin/env python3
"""Fails when a public header declares something without a `///` comment above it.

Usage: documented_headers.py HEADER...

Documentation is asked of classes, functions, types, constants, fields, enumerations and macros. It is not asked of what
explains itself: enumerators, operators, destructors, constructors without arguments, copies and moves, what is deleted,
the second of two overloads that stand together, specializations, the type names of an iterator, and the fields `size` and
`reserved` of the C interface, of which the beginning of dsckpt/c.h speaks. A comment `// Internal` exempts what it stands at.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'')
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
OPEN, CLOSE = "([{", ")]}"
ITERATOR = {"iterator_category", "value_type", "difference_type", "pointer", "reference"}


@dataclass
class Scope:
    kind: str  # "namespace", "class", "enum", "block" (extern "C"), "hidden"
    name: str = ""
    public: bool = True
    before: str = ""  # The function that was declared last.


class Header:
    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.path = path
        self.at = self.begin = 0
        self.scopes = [Scope("namespace")]
        self.documented = self.internal = False
        self.missing: list[tuple[int, str]] = []

    def check(self) -> list[tuple[int, str]]:
        while self.at < len(self.text):
            self.step()
        if len(self.scopes) != 1:
            raise SystemExit(f"{self.path}: {self.scopes[-1].name} is not closed: the parser does not understand this header")
        return self.missing

    def step(self) -> None:
        rest = self.text[self.at :]
        if space := re.match(r"\s+", rest):
            if space.group().count("\n") > 1:
                self.documented = self.internal = False
            self.at += space.end()
        elif block := BLOCK_COMMENT.match(rest):
            self.at += block.end()
        elif rest.startswith("//"):
            line = rest.split("\n", 1)[0]
            self.documented |= line.startswith("///") and not line.startswith("///<")
            self.internal |= line.startswith("// Internal")
            self.at += len(line)
        elif rest.startswith("#"):
            self.directive(re.match(r"(?:[^\n\\]|\\\n|\\.)*", rest).group())
        elif label := re.match(r"(public|protected|private)\s*:(?!:)", rest):
            self.scopes[-1].public = label[1] == "public"
            self.at += label.end()
        elif rest[0] == "}":
            self.close()
        elif rest[0] in ";,":
            self.at += 1
        else:
            self.declaration()

    def directive(self, text: str) -> None:
        self.begin = self.at
        macro = re.match(r"#\s*define\s+(\w+)", text)
        if macro and not macro[1].endswith("_") and not macro[1].endswith("_INNER"):
            self.ask(macro[1])
        self.at += len(text)
        # Macros of which each follows the other share a comment.
        self.documented &= self.text[self.at : self.at + 9] == "\n#define "

    def close(self) -> None:
        self.scopes.pop()
        end = re.match(r"\}[ \t]*\w*[ \t]*;|\}", self.text[self.at :])
        self.at += end.end()
        self.documented = self.internal = False

    def declaration(self) -> None:
        """Reads to the end of a declaration, or into the scope that it opens."""
        start = self.begin = self.at
        head = ""
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if skipped := LITERAL.match(rest) or BLOCK_COMMENT.match(rest):
                self.at += skipped.end()
                continue
            c = self.text[self.at]
            if c == ";" or (c in ",}" and self.scopes[-1].kind == "enum"):
                head = self.text[start : self.at]
                break
            if c == "{":
                head = self.text[start : self.at]
                if self.opens(head):
                    return
                self.skip()
                if "(" in strip_template(head).split("=")[0] and "operator=" not in head:
                    break  # The body of a function.
                continue
            if c in OPEN:
                self.skip()
                continue
            if rest.startswith("//"):
                self.at += len(rest.split("\n", 1)[0])
                continue
            self.at += 1
        self.judge(head)
        trailing = re.match(r"[;,]?[ \t]*//(/<)?([^\n]*)", self.text[self.at :])
        if trailing and self.missing and self.missing[-1][0] == self.line(start):
            if trailing[1] or trailing[2].startswith(" Internal"):
                self.missing.pop()
        self.documented = self.internal = False

    def skip(self) -> None:
        """Behind the bracket that closes the one here."""
        depth = 0
        while True:
            rest = self.text[self.at :]
            skipped = LITERAL.match(rest) or BLOCK_COMMENT.match(rest) or re.match(r"//[^\n]*", rest)
            if skipped:
                self.at += skipped.end()
                continue
            depth += (rest[0] in OPEN) - (rest[0] in CLOSE)
            self.at += 1
            if depth == 0:
                return

    def opens(self, head: str) -> bool:
        bare = " ".join(strip_template(head).split())
        found = re.match(
            r"(?:inline )?(namespace|extern|(?:typedef )?(?:class|struct|union)|(?:typedef )?enum(?: class)?)\b(?: \[\[\w+\]\])?(?: [A-Z_]+(?= \w))? ?([\w:]*)",
            bare,
        )
        if not found or "(" in bare:
            return False
        kind, name = found[1].removeprefix("typedef "), found[2]
        hidden = self.hidden() or name.endswith("internal")
        if kind == "extern":
            self.scopes.append(Scope("block"))
        elif kind == "namespace":
            self.scopes.append(Scope("hidden" if hidden else "namespace", name))
        else:
            self.ask(name or "enum")
            scope = "hidden" if hidden or self.internal else "enum" if kind.startswith("enum") else "class"
            self.scopes.append(Scope(scope, name, kind != "class"))
        self.at += 1
        self.documented = self.internal = False
        return True

    def judge(self, head: str) -> None:
        specialized = re.match(r"\s*template\s*<\s*>", head)
        bare = " ".join(strip_template(head).split())
        scope = self.scopes[-1]
        forward = re.fullmatch(r"(class|struct|enum|friend) .*", bare) and "(" not in bare
        if specialized or forward or scope.kind == "enum" or re.match(r"(friend|static_assert)\b", bare):
            return
        before, scope.before = scope.before, ""
        if pointer := re.search(r"\(\*(\w+)\)", bare):
            self.ask(pointer[1])
            return
        function = re.match(r"([^=(]*?)(operator\s*\S+?|~?[\w:]+)\s*\(", without_arguments(bare))
        if function and not bare.startswith("using "):
            name = function[2]
            scope.before = name if self.documented or name == before else ""
            own = name == scope.name.split(":")[-1]
            copies = own and re.search(r"\(\s*\)|\((const )?" + name + r"\s*&&?\s*\w*\)", bare)
            trivial = name.startswith(("operator", "~")) or "::" in name or copies or bare.endswith("= delete")
            if not trivial and name != before:
                self.ask(name)
            return
        names = re.findall(r"(\w+)(?:\[\w+\])?\s*(?:=|\{|,|$)", without_arguments(bare))
        name = names[0] if names else bare
        if name not in ITERATOR and not (name in ("size", "reserved") and self.path.name in ("c.h", "c_trajectory.h")):
            self.ask(name)

    def ask(self, name: str) -> None:
        if not self.documented and not self.internal and not self.hidden():
            self.missing.append((self.line(self.begin), "::".join([*self.within(), name])))

    def hidden(self) -> bool:
        return any(scope.kind == "hidden" or not scope.public for scope in self.scopes)

    def within(self) -> list[str]:
        return [scope.name for scope in self.scopes if scope.kind in ("class", "enum") and scope.name]

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1


def without_arguments(code: str) -> str:
    """The code without the arguments of templates."""
    while (shorter := re.sub(r"(?<!operator)<[^<>=]*>", "", code)) != code:
        code = shorter
    return code


def strip_template(head: str) -> str:
    match = re.match(r"\s*template\s*<", head)
    if not match:
        return head
    depth, at = 1, match.end()
    while depth:
        depth += (head[at] == "<") - (head[at] == ">")
        at += 1
    return head[at:]


def main(paths: list[str]) -> int:
    missing = [f"{path}:{line}: {name}" for path in paths for line, name in Header(Path(path)).check()]
    for each in missing:
        print(f"{each} has no documentation: say above it, with ///, what it is or does")
    print(f"{len(paths)} headers, {len(missing)} public symbols without documentation")
    return 1 if missing or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
