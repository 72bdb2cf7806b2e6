"""The C++ and C reference: what Doxygen found in the public headers, as directives of Sphinx, in the headers' order."""

import re
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

class Reference:
    """Renders headers. `xml` is the folder that Doxygen wrote."""

    def __init__(self, xml: Path) -> None:
        self._xml = xml
        self._names = {}  # By refid: the kind and the qualified name.
        self._namespace = self._compound("namespacedsckpt")
        self.files = {}
        for compound in ElementTree.parse(xml / "index.xml").getroot():
            name, kind = compound.findtext("name"), compound.get("kind")
            self._names[compound.get("refid")] = (kind, name)
            if kind == "file":
                self.files[self._compound(compound.get("refid")).find("location").get("file")] = compound.get("refid")
            for member in compound.findall("member"):
                scope = name + "::" if kind in ("namespace", "class", "struct") else ""
                self._names[member.get("refid")] = (member.get("kind"), scope + member.findtext("name"))

    def header(self, path: str) -> str:
        """reStructuredText for all that a header ("dsckpt/engine.h") documents."""
        file = self._compound(self.files[path])
        c = path in ("dsckpt/c.h", "dsckpt/c_trajectory.h")
        classes = [self._compound(inner.get("refid")) for inner in file.findall("innerclass")]
        # Members of classes are shown with them.
        classes = [found for found in classes if found.findtext("compoundname").count("::") == (0 if c else 1)]
        structs = {found.findtext("compoundname") for found in classes}
        found = [(line_of(node), self._class(node, "c" if c else "cpp")) for node in classes if text_of(node)]
        for node in [*file.iter("memberdef"), *([] if c else self._namespace.iter("memberdef"))]:
            at_home = node.find("location").get("file") == path
            if at_home and text_of(node) and node.findtext("name") not in structs:
                found.append((line_of(node), self._member(node, "c" if c else "cpp")))
        # What a header says of itself stands behind \\file.
        begin = self._text(file) + "\n" + ("" if c else ".. cpp:namespace:: dsckpt\n\n")
        return begin + "\n".join(text for _, text in sorted(found, key=lambda each: each[0])) + "\n"

    def _compound(self, refid: str) -> ElementTree.Element:
        return ElementTree.parse(self._xml / f"{refid}.xml").getroot().find("compounddef")

    def _class(self, node: ElementTree.Element, domain: str) -> str:
        name = node.findtext("compoundname").removeprefix("dsckpt::")
        template = node.find("templateparamlist")
        head = f"template<{', '.join(flat(each.find('type')) for each in template)}> {name}" if template is not None else name
        body = [self._text(node)]
        members = [member for member in node.iter("memberdef") if member.get("prot") == "public"]
        parts = [(line_of(member), self._member(member, domain)) for member in members if text_of(member)]
        for inner in node.findall("innerclass"):
            nested = self._compound(inner.get("refid"))
            if inner.get("prot") == "public" and text_of(nested):
                parts.append((line_of(nested), self._class(nested, domain)))
        body += [text for _, text in sorted(parts, key=lambda each: each[0])]
        return directive(domain, node.get("kind"), head.rsplit("::", 1)[-1] if "::" in name else head, "\n".join(body))

    def _member(self, node: ElementTree.Element, domain: str) -> str:
        kind, name = node.get("kind"), node.findtext("name")
        if kind == "enum":
            return self._enum(node, domain)
        if kind == "define":
            names = [each.findtext("defname") for each in node.findall("param")]
            return directive("c", "macro", name + (f"({', '.join(names)})" if names else ""), self._text(node))
        if kind == "typedef":
            if domain == "c":
                return directive("c", "type", flat(node.find("definition")).removeprefix("typedef ").split(" ")[-1], self._text(node))
            return directive("cpp", "type", f"{name} = {flat(node.find('type'))}", self._text(node))
        definition = f"{flat(node.find('type'))} {name}"
        if kind == "variable":
            definition += flat(node.find("argsstring"))  # Of an array or a pointer to a function.
            start = flat(node.find("initializer"))
            if start and len(start) < 60 and not start.startswith("= {."):
                definition += " " + start
        else:
            definition += flat(node.find("argsstring"))
            if node.get("static") == "yes":
                definition = "static " + definition
            if node.get("virt") != "non-virtual" and not definition.startswith("virtual"):
                definition = "virtual " + definition
        definition = re.sub(r"\b(inline|friend) ", "", definition)
        template = node.find("templateparamlist")
        if template is not None:
            definition = f"template<{', '.join(flat(each.find('type')) for each in template)}> {definition}"
        kind = {"variable": "member"}.get(kind, kind)
        return directive(domain, kind, definition.strip(), self._text(node))

    def _enum(self, node: ElementTree.Element, domain: str) -> str:
        # Values that explain themselves stand together.
        values, together = [], []
        for each in node.findall("enumvalue"):
            together.append(f"{each.findtext('name')} {flat(each.find('initializer'))}".strip())
            if text_of(each):
                if together[:-1]:
                    values.append(directive(domain, "enumerator", together[:-1], ""))
                values.append(directive(domain, "enumerator", together[-1:], self._text(each)))
                together = []
        if together:
            values.append(directive(domain, "enumerator", together, ""))
        name = node.findtext("name")
        if not name or name.startswith("@"):  # In C: constants that stand together.
            return self._text(node) + "\n" + "\n".join(values)
        kind = "enum-class" if node.get("strong") == "yes" else "enum"
        return directive(domain, kind, name, self._text(node) + "\n" + "\n".join(values))

    def _text(self, node: ElementTree.Element) -> str:
        paragraphs = [
            self._inline(paragraph)
            for part in ("briefdescription", "detaileddescription")
            for paragraph in node.findall(f"{part}/para")
        ]
        # What can go wrong, and what is asked of the caller, stand out.
        text = "\n\n".join(paragraph.strip() for paragraph in paragraphs)
        return re.sub(r"(?:^|(?<=\s))(Errors|REQUIRES): ", r"\n\n**\1:** ", text).strip() + "\n"

    def _inline(self, node: ElementTree.Element) -> str:
        marks = {"computeroutput": "``", "bold": "**", "emphasis": "*"}
        text = escape(node.text)
        for child in node:
            inside = "".join(child.itertext())
            if child.tag in marks:
                text += f"\\ {marks[child.tag]}{inside}{marks[child.tag]}\\ "
            elif child.tag == "ref":
                text += self._link(child.get("refid"), inside)
            elif child.tag == "itemizedlist":
                text += "".join(f"\n\n- {self._inline(item.find('para')).strip()}" for item in child) + "\n\n"
            else:
                text += escape(inside)
            text += escape(child.tail)
        return text

    def _link(self, refid: str, text: str) -> str:
        kind, name = self._names.get(refid, ("file", ""))
        if kind in ("file", "namespace", "dir") or not name:
            return escape(text)
        if name.startswith("dsckpt::"):
            return f"\\ :cpp:any:`{text} <{name}>`\\ "
        roles = {"function": "func", "define": "macro", "enumvalue": "enumerator", "variable": "member", "typedef": "type"}
        return f"\\ :c:{roles.get(kind, kind)}:`{text} <{name.replace('::', '.')}>`\\ "


def directive(domain: str, kind: str, head: str | list[str], body: str) -> str:
    begin = f".. {domain}:{kind}:: "
    if isinstance(head, list):  # Several signatures, which the list of contents leaves out.
        head = ("\n" + " " * len(begin)).join(head)
        body = ":no-contents-entry:\n\n" + body
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    between = "\n" if body.startswith(":") else "\n\n"
    return f"{begin}{head}{between}{textwrap.indent(body, '   ')}\n\n"


def line_of(node: ElementTree.Element) -> int:
    return int(node.find("location").get("line"))


def text_of(node: ElementTree.Element) -> str:
    return "".join("".join(node.find(part).itertext()) for part in ("briefdescription", "detaileddescription")).strip()


def flat(node: ElementTree.Element | None) -> str:
    """The code of an element on one line, as clang-format would write it."""
    text = "" if node is None else " ".join("".join(node.itertext()).split())
    text = re.sub(r"< | (?=>)", lambda found: found.group().strip(), text)
    return " ".join(re.sub(r"(?<!\)) ([&*]+)", r"\1 ", text).split())


def escape(text: str | None) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text or "")
