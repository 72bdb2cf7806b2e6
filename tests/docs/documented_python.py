#!/usr/bin/env python3
"""Fails when a public name of the Python package has no docstring, or an option is not explained.

Usage: documented_python.py python/dsckpt

Public are the names in `__all__` of the package, of its modules and of its packages, where they have one; and the methods and
properties of classes among them that do not begin with an underscore. An option (a parameter with a default) is explained when its name stands under "Args:" in the docstring of
its function (for those of `__init__` also under "Attributes:" of the class); or when the docstring says "as" which other function it is. The fields of
a dataclass stand under "Attributes:". The sources are read, not imported.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text())
        self.defined = {node.name: node for node in self.tree.body if isinstance(node, (*Function, ast.ClassDef))}
        self.imported = {
            alias.asname or alias.name: (node.level, node.module or "", alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def public(self) -> list[str]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return ast.literal_eval(node.value)
        return []


class Checker:
    def __init__(self, package: Path) -> None:
        self.package = package
        self.modules: dict[Path, Module] = {}
        self.missing: list[str] = []
        self.checked = 0

    def module(self, path: Path) -> Module:
        for file in (path.with_suffix(".py"), path / "__init__.py", path.with_suffix(".pyi")):
            if file.exists():
                return self.modules.setdefault(file, Module(file))
        raise SystemExit(f"{path}: no such module")

    def check_all(self) -> None:
        for path in sorted([*self.package.glob("*.py"), *self.package.glob("*/__init__.py")]):
            module = self.module(path.parent if path.parent != self.package else path.with_suffix(""))
            for each in module.public():
                self.check_name(module, each, each)

    def check_name(self, module: Module, name: str, shown: str) -> None:
        if name in module.defined:
            node = module.defined[name]
            self.check_class(module, node) if isinstance(node, ast.ClassDef) else self.check_function(module, node, shown)
        elif name in module.imported:
            level, source, original = module.imported[name]
            base = module.path.parent
            for _ in range(level - 1):
                base = base.parent
            where = base.joinpath(*source.split(".")) if source else base / "__init__"
            if level and not (base / original).is_dir():
                self.check_name(self.module(where), original, shown)
        elif not name.startswith("__"):  # A constant: a docstring stands below it.
            body = module.tree.body
            for node, after in zip(body, [*body[1:], None]):
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in ast.unparse(node).split("=")[0]:
                    documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    self.ask(module, node, shown, documented, "has no docstring below it")

    def check_class(self, module: Module, node: ast.ClassDef) -> None:
        text = ast.get_docstring(node) or ""
        self.ask(module, node, node.name, bool(text), "has no docstring")
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            listed = section(text, "Attributes")
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    name = ast.unparse(field.target)
                    self.ask(module, field, f"{node.name}.{name}", name in listed, 'is not under "Attributes:" of its class')
        for method in node.body:
            if not isinstance(method, Function):
                continue
            if method.name == "__init__":
                self.check_options(module, method, node.name, text + "\n" + (ast.get_docstring(method) or ""))
            elif not method.name.startswith("_"):
                self.check_function(module, method, f"{node.name}.{method.name}")

    def check_function(self, module: Module, node: ast.FunctionDef, shown: str) -> None:
        text = ast.get_docstring(node) or ""
        self.ask(module, node, shown, bool(text), "has no docstring")
        if text and not any(ast.unparse(each).endswith(".setter") for each in node.decorator_list):
            self.check_options(module, node, shown, text)

    def check_options(self, module: Module, node: ast.FunctionDef, shown: str, text: str) -> None:
        positional = [*node.args.posonlyargs, *node.args.args]
        with_default = positional[len(positional) - len(node.args.defaults) :]
        listed = section(text, "Args") | section(text, "Attributes")
        elsewhere = re.search(r"\b[Aa]s\s+(for\s+)?[\w.]+\(\)", text)
        for option in [*with_default, *node.args.kwonlyargs]:
            explained = option.arg in listed or elsewhere or re.search(rf"`{option.arg}`", text)
            self.ask(module, node, f"{shown}({option.arg})", bool(explained), 'is not explained under "Args:"')

    def ask(self, module: Module, node: ast.AST, shown: str, good: bool, why: str) -> None:
        self.checked += 1
        if not good:
            self.missing.append(f"{module.path}:{node.lineno}: {shown} {why}")


def section(text: str, title: str) -> set[str]:
    """The names that a section of a docstring in Google's style explains."""
    found = re.search(rf"^{title}:\n((?:[ \t]+.*\n?|\n)*)", text + "\n", re.MULTILINE)
    return set(re.findall(r"^ {4}(\w+)(?: \(.*\))?:", found[1], re.MULTILINE)) if found else set()


def main(package: str) -> int:
    checker = Checker(Path(package))
    checker.check_all()
    missing = sorted(set(checker.missing))
    print("\n".join([*missing, f"{checker.checked} public names and options, {len(missing)} without documentation"]))
    return 1 if missing or not checker.checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
