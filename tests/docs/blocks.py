#!/usr/bin/env python3
"""Makes one C++ file of the C++ examples in Markdown pages, so that the compiler checks them.

Usage: blocks.py OUTPUT PAGE...

Each block of code becomes a function after tests/docs/context.h, which declares what the examples take for granted. A block
that has a main() is a program of its own: it is written to OUTPUT's folder under the name in its first line ("// train.cc").
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main(output: str, *pages: str) -> int:
    functions = ['#include "tests/docs/context.h"\n']
    for page in pages:
        text = Path(page).read_text()
        for block in re.finditer(r"^```cpp\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 2
            where = f'#line {line} "{page}"\n'
            if "int main()" in block[1]:
                name = re.match(r"// (\w+\.cc)\n", block[1])[1]
                write(Path(output).parent / name, where + block[1])
            else:
                function = f"dsckpt::Status Block{len(functions)}()"
                functions.append(f"{function};\n{function} {{\n{where}{block[1]}\nreturn dsckpt::Status();\n}}\n")
    write(Path(output), "\n".join(functions))
    return 0 if len(functions) > 1 else 1


def write(path: Path, text: str) -> None:
    """Leaves an equal file alone, so that nothing is compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
