"""Generates docs/reference/python.md from the docstrings and signatures of the package. Reads the sources, and imports none of them.

usage: reference.py [--check]    with --check: exit 1 if the page differs

A public name without a docstring, and a class of a signature that the page does not describe, are errors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Set

import griffe

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/reference/python.md"

# Modules of the page, in its order, with the names that a module does not export, but whose objects its classes return or have.
MODULES: Dict[str, Sequence[str]] = {
    "threadline": (
        "_async.checkpoints.AsyncAllCheckpoints",
        "_async.checkpoints.AsyncListed",
        "_async.threads.AsyncAgents",
        "_async.threads.AsyncInterrupts",
        "_async.threads.AsyncThreads",
        "_async.writers.AsyncStates",
        "_async.writers.AsyncWriters",
        "_records.ForkedFrom",
        "_records.LastRun",
        "_records.QueuedPlace",
        "_records.QueuedTurn",
    ),
    "threadline.kv": (),
    "threadline.checkpoints": (),
    "threadline.conversation": (),
    "threadline.pipe": (),
    "threadline.agui": (),
    "threadline.langgraph": (),
    "threadline.openai_agents": (),
    "threadline.pydantic_ai": (),
    "threadline.adk": (),
    "threadline.pytest_plugin": (),
    "threadline.problems": (),
}
# Classes of the package that signatures name, and that no program makes or uses itself; likewise all whose names begin with `_`.
HIDDEN = {"AsyncHttp", "ServerProcess"}
INTRODUCTION = """\
# Reference of the Python package

Generated from the package by `sdk/python/scripts/reference.py`. Guide: [python.md](../python.md).

- **Synchronous client.** The page describes the asynchronous classes. Each class `AsyncX` has a synchronous twin `X` with the same members,
  without `await`; `aclose` is `close` there.
- **Defaults.** An argument with the default `...` may be left out, which is not the same as None.
- **Errors.** Each call may raise [`ProblemError`](#problemerror), [`ConnectionFailed`](#connectionfailed) or [`Timeout`](#timeout). The
  page names further errors.
- **Times** are ISO 8601 texts in UTC. **Durations** are seconds, unless the name says otherwise. **Sizes** are bytes.
"""


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def plain(text: str) -> str:
    """A docstring as Markdown: with the names of roles and doubled backticks as code."""
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


class Page:
    """The text of the page, and what is wrong with its sources."""

    def __init__(self, package: Any) -> None:
        self.package = package
        self.wrong: List[str] = []
        self.lines: List[str] = [INTRODUCTION]
        # Names that the page describes, and the anchors of names that only one module has.
        self.described: Set[str] = set()
        self.anchors: Dict[str, str] = {}
        self.objects: Dict[str, List[Any]] = {}
        for module, further in MODULES.items():
            found = [self.named(module, name) for name in self.exported(module)]
            found += [package[name] for name in further]
            self.objects[module] = sorted((one for one in found if one is not None), key=lambda one: str(one.name).lower())
        for module, objects in self.objects.items():
            for name in (str(one.name) for one in objects):
                if name in self.described:
                    self.anchors.pop(name, None)
                else:
                    self.anchors[name] = "threadlineproblems" if module == "threadline.problems" else slug(name)
                self.described.add(name)

    def module(self, module: str) -> Any:
        return self.package if module == "threadline" else self.package[module.partition(".")[2]]

    def exported(self, module: str) -> List[str]:
        of = self.module(module)
        if of.exports is not None:
            return [str(one) for one in of.exports]
        return [name for name, member in of.members.items() if not name.startswith("_") and not member.is_alias and not member.is_module]

    def named(self, module: str, name: str) -> Any:
        """What a module exports under a name, unless another module of the page describes it, or the asynchronous twin."""
        one = self.module(module)[name]
        one = one.final_target if one.is_alias else one
        is_twin = one.canonical_path.startswith("threadline._sync.")
        is_elsewhere = module != "threadline" and name in self.exported("threadline")
        return None if is_twin or is_elsewhere or name == "__version__" else one

    def add(self, *lines: str) -> None:
        self.lines += lines

    def docstring(self, one: Any, *, required: bool = True) -> str:
        if one.docstring is None:
            if required:
                self.wrong.append(f"{one.canonical_path} has no docstring")
            return ""
        return self.linked(plain(one.docstring.value), str(one.name))

    def linked(self, text: str, own: str) -> str:
        """Text with links at the names that the page describes."""
        link = lambda found: f"[{found[0]}](#{self.anchors[found[1]]})" if found[1] in self.anchors and found[1] != own else found[0]
        parts = re.split(r"(```.*?```)", text, flags=re.S)
        return "".join(part if part.startswith("```") else re.sub(r"(?<!\[)`([A-Z]\w+)`", link, part) for part in parts)

    def annotation(self, one: Any, annotation: Any) -> str:
        """An annotation, with the values of aliases that the page does not describe in place of their names."""
        text = str(annotation)
        for name in annotation.iterate(flat=True) if isinstance(annotation, griffe.Expr) else ():
            if not isinstance(name, griffe.ExprName) or name.name in self.described or f"Async{name.name}" in self.described:
                continue
            if name.name in HIDDEN or name.name.startswith("_") or not name.canonical_path.startswith("threadline."):
                continue
            named = self.package[name.canonical_path.partition(".")[2]]
            if named.is_attribute and named.value is not None:
                text = re.sub(rf"\b{name.name}\b", self.annotation(named, named.value), text)
            else:
                self.wrong.append(f"{one.canonical_path} names {name.canonical_path}, which the page does not describe")
        return text

    def type_of(self, one: Any) -> str:
        """The type of an attribute: its annotation, or the class that its value is made of."""
        if one.annotation is not None:
            return re.sub(r"^(ClassVar|Final)\[(.*)\]$", r"\2", self.annotation(one, one.annotation))
        if isinstance(one.value, griffe.ExprCall) and str(one.value.function) in self.anchors:
            return str(one.value.function)
        return ""

    def signature(self, function: Any, name: str) -> str:
        """A function as it is written, in lines of at most 120 characters."""
        parts: List[str] = []
        stars = False
        for parameter in function.parameters:
            if parameter.name in ("self", "cls"):
                continue
            kind = parameter.kind.value
            if kind == "keyword-only" and not stars:
                parts.append("*")
                stars = True
            text = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "") + parameter.name
            stars = stars or kind == "variadic positional"
            text += f": {self.annotation(function, parameter.annotation)}" if parameter.annotation is not None else ""
            if parameter.default is not None and not kind.startswith("variadic"):
                default = "..." if str(parameter.default) == "UNSET" else re.sub(r"^\(lambda: (.+)\)\(\)$", r"\1", str(parameter.default))
                text += f" = {default}" if parameter.annotation is not None else f"={default}"
            parts.append(text)
        returns = f" -> {self.annotation(function, function.returns)}" if function.returns is not None else ""
        begin = f"{'async ' if 'async' in function.labels else ''}def {name}("
        line = f"{begin}{', '.join(parts)}){returns}"
        return line if len(line) <= 120 else begin + "\n    " + ",\n    ".join(parts) + f",\n){returns}"

    def function(self, function: Any, name: str, level: str) -> None:
        text = self.docstring(function)
        self.add(f"{level} {name}", "", "```python", self.signature(function, name.rpartition(".")[2]), "```", "", text, "")

    def class_(self, one: Any) -> None:
        bases = [str(base) for base in one.bases if str(base) not in ("Record", "ABC", "Generic", "object")]
        self.add(f"### {one.name}", "")
        known = [f"[`{base}`](#{self.anchors[base]})" if base in self.anchors else f"`{base}`" for base in bases]
        self.add(self.docstring(one), "")
        if known:
            self.add(f"Base: {', '.join(known)}.", "")
        own = {name: member for name, member in one.members.items() if not name.startswith("_")}
        init = one.members.get("__init__")
        made = init is not None and not any(str(parameter.annotation) in HIDDEN for parameter in init.parameters)
        if made and not is_internal(one):
            self.add("```python", self.signature(init, str(one.name)).replace("def ", "", 1).removesuffix(" -> None"), "```", "")
            if init.docstring is not None:
                self.add(self.docstring(init), "")
        self.attributes(one, [member for member in own.values() if member.is_attribute and member.name not in ("members", "slug")])
        functions = [member for member in own.values() if member.is_function]
        # Methods that the framework of an adapter describes.
        foreign = bool(bases) and not all(base in self.anchors or base in ("Exception", "AsyncWriters") for base in bases)
        described = [function for function in functions if function.docstring is not None or not foreign]
        for function in described:
            if function.docstring is None and function.name in ("of", "body"):
                continue
            self.function(function, f"{one.name}.{function.name}", "####")
        others = [f"`{function.name}`" for function in functions if function not in described]
        if others:
            self.add(f"Documented by the base class: {', '.join(others)}.", "")

    def attributes(self, one: Any, attributes: Sequence[Any]) -> None:
        rows = [(member, self.type_of(member), self.docstring(member, required="property" in member.labels)) for member in attributes]
        # Members whose types are in the signature of the class are told again only with a text.
        if not any(text or ("dataclass" not in one.labels and type_) for _, type_, text in rows):
            return
        self.add("| member | type | |", "|---|---|---|")
        for member, type_, text in rows:
            if not type_ and not text:
                continue
            shown = f"[`{type_}`](#{self.anchors[type_]})" if type_ in self.anchors else f"`{type_}`" if type_ else ""
            self.add(f"| `{member.name}` | {shown} | {' '.join(text.split())} |")
        self.add("")

    def problems(self) -> None:
        self.add("| class | when |", "|---|---|")
        for one in self.objects["threadline.problems"]:
            self.add(f"| `{one.name}` | {self.docstring(one)} |")
        self.add("")

    def write(self) -> str:
        for module, objects in self.objects.items():
            text = self.docstring(self.module(module))
            self.add(f"## {module}", "", text, "")
            if module == "threadline.problems":
                self.problems()
                continue
            for one in objects:
                if one.is_class:
                    self.class_(one)
                elif one.is_function:
                    self.function(one, str(one.name), "###")
                else:
                    value = str(one.value)
                    self.add(f"### {one.name}", "", "```python", f"{one.name} = {value}", "```", "", self.docstring(one), "")
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).rstrip() + "\n"


def is_internal(one: Any) -> bool:
    """True for classes whose objects other objects make."""
    return any(part in one.canonical_path for part in ("._async.run.", "._async.writers."))


def main() -> int:
    package = griffe.load("threadline", search_paths=[str(ROOT / "sdk/python/src")], allow_inspection=False)
    page = Page(package)
    text = page.write()
    for line in page.wrong:
        print(line)
    if page.wrong:
        return 1
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE} differs: run sdk/python/scripts/reference.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
