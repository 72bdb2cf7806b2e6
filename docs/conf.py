"""Sphinx configuration of the documentation site; scripts/docs builds it.

The source directory is the root of the repository: pages link to each other, to spec/ and to examples by the same
relative paths on the site and in the tree.
"""

import __future__

import os
import re
import subprocess
import sys
import types
from pathlib import Path

from sphinx.util import inspect

sys.path.insert(0, str(Path(__file__).parent))
from headers import Reference

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ["DSCKPT_PROGRAM"]
XML = Path(os.environ["DSCKPT_DOXYGEN_XML"])

numbers = re.findall(r"_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/dsckpt/version.h").read_text())

reference = Reference(XML)

project = "dsckpt"
release = ".".join(numbers)
root_doc = "docs/index"
include_patterns = ["docs/**.md", "docs/**.rst", "spec/*.md", "HACKING.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/RESULTS.md"]
exclude_patterns = ["build", "python", ".git", "README.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 84  # Longer ones have a line for each argument.

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings = ["myst.xref_missing"]  # tests/docs/links.py checks every link, of all files and not of the site's alone.

html_theme = "furo"
html_title = f"dsckpt {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False

cpp_id_attributes = c_id_attributes = ["DSCKPT_API"]

# Python: the sources as they are. The compiled part need not be built: its stub says the same.
autodoc_mock_imports = ["torch", "numpy", "ml_dtypes", "deepspeed", "safetensors"]
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "code"  # Docstrings write `code` as Markdown does.
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def load_stub() -> None:
    """Makes python/dsckpt/_native.pyi the module dsckpt._native."""
    sys.path.insert(0, str(ROOT / "python"))
    stub = ROOT / "python/dsckpt/_native.pyi"
    module = types.ModuleType("dsckpt._native")
    sys.modules[module.__name__] = module
    # Stubs name types before they define them.
    exec(compile(stub.read_text(), stub, "exec", __future__.annotations.compiler_flag), vars(module))
    for name in module.__annotations__:  # Constants, without values in a stub.
        setattr(module, name, None)
    module.__version__ = release


def run_help(*arguments: str) -> str:
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout.rstrip()


def command_line() -> str:
    """The reference of the command line, from the command itself."""
    overview = run_help("--help")
    text = f"```text\n{overview}\n```\n"
    for name in re.findall(r"^  (\w+) {2,}\S", overview.split("Commands:")[1], re.MULTILINE):
        text += f"\n## dsckpt {name}\n\n```text\n{run_help(name, '--help')}\n```\n"
    return text


def on_source_read(app, name, source) -> None:
    if name == "docs/reference/cli":
        source[0] = source[0].replace("<!-- the help of every command -->", command_line())
    source[0] = re.sub(r"\[([^]]+)\]\([\w./-]+/\)", r"\1", source[0])  # The site has no page for a folder.
    source[0] = re.sub(r"^\.\. public header: (\S+)$", lambda found: reference.header(found[1]), source[0], flags=re.MULTILINE)


def check_pages() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.rst"))
    no_api = {"dsckpt/dsckpt.h", "dsckpt/export.h"}
    unseen = set(reference.files) - set(re.findall(r"public header: (\S+)", pages)) - no_api
    if unseen:
        sys.exit(f"docs/reference has no page with {', '.join(sorted(unseen))}")


def on_docstring(app, what, name, thing, options, lines) -> None:
    """Examples stand indented behind a paragraph, without the marks of reStructuredText."""
    for i in reversed(range(len(lines) - 2)):
        paragraph = re.match(r"[^\s:.|*-]", lines[i]) and not lines[i].startswith("Example")
        if paragraph and not lines[i + 1] and lines[i + 2].startswith("    "):
            lines[i + 1 : i + 1] = ["", "::"]


def on_signature(app, what, name, thing, options, arguments, result):
    """Of a class whose base is mocked, Sphinx takes the mock's arguments for those of the class."""
    if what == "class" and arguments and "**kwargs" in arguments:
        return inspect.stringify_signature(inspect.signature(thing.__init__, bound_method=True), show_return_annotation=False), None
    return None


def setup(app) -> None:
    load_stub()
    check_pages()
    app.connect("source-read", on_source_read)
    app.connect("autodoc-process-docstring", on_docstring)
    app.connect("autodoc-process-signature", on_signature)
