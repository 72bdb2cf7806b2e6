"""The modules of the package import each other in one direction: there are no circles.

Every import counts, wherever it stands: inside a function and below TYPE_CHECKING too, for a circle
that is cut there is a circle for whoever reads the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dsckpt

Graph = dict[str, set[str]]
PACKAGE = Path(dsckpt.__file__).parent


def modules_of(package: Path) -> dict[str, Path]:
    """The modules below a package's folder, by their full names."""
    found = {}
    for file in package.rglob("*.py*"):
        if file.suffix in (".py", ".pyi"):
            parts = [package.name, *file.relative_to(package).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


def imported(module: str, file: Path, known: dict[str, Path]) -> Iterator[str]:
    """What the import statements of a module name: modules, and the packages that they are in.

    A package that the module itself is in does not count as imported because it is around.
    """
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, file, node)
            full = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in full]
        else:
            continue
        for name in names:
            parts = name.split(".")
            around = [".".join(parts[:length]) for length in range(1, len(parts))]
            yield from (each for each in around if not f"{module}.".startswith(f"{each}."))
            yield name


def absolute(module: str, file: Path, node: ast.ImportFrom) -> str:
    """The module that a `from` statement names."""
    if not node.level:
        return str(node.module)
    parts = module.split(".")
    above = node.level - (1 if file.stem == "__init__" else 0)
    kept = parts[: len(parts) - above]
    return ".".join([*kept, node.module] if node.module else kept)


def import_graph(package: Path) -> Graph:
    """Which module of a package imports which of it."""
    known = modules_of(package)
    return {
        module: {name for name in imported(module, file, known) if name in known} - {module}
        for module, file in known.items()
    }


def circles(graph: Graph) -> list[list[str]]:
    """The sets of modules that all reach each other (Tarjan, SIAM J. Comput. 1 (1972) 146)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


def test_no_module_reaches_itself() -> None:
    graph = import_graph(PACKAGE)
    assert len(graph) > 50
    assert circles(graph) == []


def test_what_is_imported_for_types_only_is_of_other_packages() -> None:
    for module, file in modules_of(PACKAGE).items():
        for block in ast.walk(ast.parse(file.read_text())):
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test):
                for node in ast.walk(block):
                    if isinstance(node, ast.ImportFrom):
                        assert not node.level, f"{module}, line {node.lineno}"
                        assert not str(node.module).startswith("dsckpt"), module


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "from . import b", "b": "from .c import x", "c": ""}, []),
        ({"a": "from . import b", "b": "def f():\n    from .a import x"}, [["p.a", "p.b"]]),
        ({"a": "import p.b", "b": "if TYPE_CHECKING:\n    from .a import x"}, [["p.a", "p.b"]]),
        (
            {"a": "from .b import x", "b": "from .c import x", "c": "from p.a import x"},
            [["p.a", "p.b", "p.c"]],
        ),
        # A module that takes a name from the package that it is in.
        ({"__init__": "from .a import x", "a": "from . import y"}, [["p", "p.a"]]),
        ({"__init__": "from .a import x", "a": "from . import b", "b": ""}, []),
        # Importing a module of another package runs that package.
        (
            {"s/__init__": "from ..a import x", "s/b": "", "a": "from .s.b import x"},
            [["p.a", "p.s"]],
        ),
        ({"s/__init__": "from .b import x", "s/b": "from ..a import x", "a": ""}, []),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, dict) else None,
)
def test_what_counts_as_a_circle(
    files: dict[str, str], expected: list[list[str]], tmp_path: Path
) -> None:
    package = tmp_path / "p"
    for name, text in {"__init__": "", **files}.items():
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert circles(import_graph(package)) == expected
