"""The reference: what a call takes, gives and raises stands in its docstring.

A public name is one that a page below docs/api describes. Exempt, by kind:

- the constructors of exceptions, enumerations and protocols, and of what calls return
  (``MADE_BY_CALLS``): users construct none of them;
- a method that overrides one which explains the parameter: the class above says it once;
- constructors that are those of other packages (``FOREIGN``);
- Ray's settings of datasets that have no effect: the module ``UNUSED`` lists them;
- parameters that begin with an underscore: they are no part of the API.
"""

from __future__ import annotations

import ast
import doctest
import enum
import functools
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from heliostat import _heliostat

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/api").rglob("*.md"))
# Of each library: `core` has the pages of docs/api/core.
PARTS: dict[str, list[Path]] = {}
for _page in PAGES:
    _part = _page.relative_to(ROOT / "docs/api").parts[0].removesuffix(".md")
    if _part != "index":
        PARTS.setdefault(_part, []).append(_page)

pytestmark = pytest.mark.heliostat_only("they are our pages")

# By the name of the class: what `remote`, `bind`, `put` and others return.
MADE_BY_CALLS = {
    *("ActorClass", "ActorHandle", "ActorMethod", "ClusterNode", "RemoteFunction"),
    *("ClassMethodNode", "ClassNode", "DAGNode", "FunctionNode", "InputAttributeNode", "InputNode"),
    *("DynamicObjectRefGenerator", "ObjectRef", "ObjectRefGenerator"),
    *("Dataset", "MaterializedDataset", "DeploymentBroadcastResponse", "DeploymentHandle"),
    *("DeploymentResponse", "DeploymentResponseGenerator"),
    *("ActorClassID", "ActorID", "ClusterID", "FunctionID", "JobID", "NodeID", "PlacementGroupID"),
    *("TaskID", "UniqueID", "WorkerID"),
    # Rows of the state API, which are written from a table.
    *("ActorState", "ClusterEventState", "JobState", "NodeState", "ObjectState", "TaskState"),
    *("PlacementGroupState", "RuntimeEnvState", "WorkerState"),
}

# Their constructors are inherited as they are.
FOREIGN = ("lightning", "pytorch_lightning", "dask", "transformers")
UNUSED = "heliostat.data.unused_settings"

SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\*{0,2}[\w., *`/]+?)(?: \(.*?\))?:(?= |$)", re.MULTILINE)


class Call(NamedTuple):
    """Something a user calls: a function, a method, or a class that is constructed."""

    path: str
    call: Callable[..., Any]
    doc: str  # with what the class above says of the parameters
    signature: inspect.Signature
    is_class: bool


def public(part: str) -> list[str]:
    """The names that the pages of a part describe."""
    text = "".join(page.read_text() for page in PARTS[part])
    return re.findall(r"^::: (heliostat[\w.]*)$", text, re.MULTILINE)


def found_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@functools.cache
def stub() -> dict[str, str]:
    """The docstrings of the extension module's names, as its stub writes them."""
    found: dict[str, str] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found[prefix + node.name] = ast.get_docstring(node) or ""
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{node.name}.")

    visit(ast.parse((ROOT / "python/heliostat/_heliostat.pyi").read_text()).body, "")
    return found


def doc_of(thing: Any, name: str, owner: type | None = None) -> str:
    """Its docstring; of what is compiled, the stub's."""
    module = owner.__module__ if owner is not None else getattr(thing, "__module__", "")
    if module == "heliostat._heliostat":
        return stub().get(name if owner is None else f"{owner.__name__}.{name}", "")
    return inspect.getdoc(thing) or ""


def sections(doc: str) -> dict[str, str]:
    """The parts of a docstring by title."""
    parts = SECTION.split(doc)
    found: dict[str, str] = {}
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        # The text of a section is indented; what follows it is not.
        body = re.split(r"\n(?=\S)", "\n" + text.strip("\n"))[0]
        found[title] = found.get(title, "") + body
    return found


def entries(text: str) -> set[str]:
    """The names that a section explains: ``a, b: ...`` explains two."""
    return {
        name.strip(" `*") for found in ENTRY.findall(text) for name in re.split(r", | and ", found)
    }


def explained(doc: str) -> set[str]:
    parts = sections(doc)
    return entries(parts.get("Args", "")) | entries(parts.get("Attributes", ""))


def signature_of(thing: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):
        return None


def is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(("heliostat", "ray"))


def members(path: str, cls: type) -> Iterator[Call]:
    """The public methods of a class that are written here."""
    above = [base for base in cls.__mro__ if is_ours(base)]
    names = dict.fromkeys(n for base in above for n in vars(base) if not n.startswith("_"))
    for name in names:
        static = inspect.getattr_static(cls, name)
        inner = getattr(static, "__func__", static)
        if isinstance(static, property | functools.cached_property) or inspect.isclass(inner):
            continue
        found = getattr(cls, name)
        signature = signature_of(found) if callable(found) else None
        if signature is None or not callable(inner):
            continue
        if inspect.isfunction(inner) and not is_ours(inner):
            continue
        is_bound = isinstance(static, staticmethod | classmethod)
        if not is_bound and (found is static or inspect.isfunction(found)):
            parameters = list(signature.parameters.values())[1:]  # without self
            signature = signature.replace(parameters=parameters)
        docs = [doc_of(vars(c)[name], name, c) for c in above if name in vars(c)]
        yield Call(f"{path}.{name}", inner, "\n\n".join(filter(None, docs)), signature, False)


def calls(path: str) -> Iterator[Call]:
    """What is called of a public name: itself, and the methods of a class."""
    thing = found_at(path)
    if not inspect.isclass(thing):
        signature = signature_of(thing) if callable(thing) else None
        if signature is not None:
            yield Call(path, thing, doc_of(thing, thing.__name__), signature, False)
        return
    name = path.rpartition(".")[2]
    is_made = not issubclass(thing, BaseException | enum.Enum) and name not in MADE_BY_CALLS
    if is_made and not getattr(thing, "_is_protocol", False):
        signature = signature_of(thing)
        owner = next(c for c in thing.__mro__ if "__init__" in vars(c) or c is object)
        if signature is not None and not owner.__module__.startswith(FOREIGN):
            inits = [vars(c)["__init__"] for c in thing.__mro__ if "__init__" in vars(c)]
            docs = [c.__doc__ for c in thing.__mro__ if is_ours(c)]
            docs += [i.__doc__ for i in inits if i is not object.__init__ and is_ours(i)]
            text = "\n\n".join(inspect.cleandoc(doc) for doc in docs if doc)
            yield Call(path, thing, text, signature, True)
    yield from members(path, thing)


def unexplained(call: Call) -> list[str]:
    """The parameters that the docstring does not explain."""
    known = explained(call.doc)
    if call.is_class:
        # The fields of the classes that list what has no effect.
        without_effect = [c for c in call.call.__mro__ if c.__module__ == UNUSED]
        known |= {field for c in without_effect for field in c.__annotations__}
    return [n for n in call.signature.parameters if n[0] != "_" and n not in known]


def gives(call: Call) -> bool:
    """Whether it has parameters and returns something."""
    if call.is_class or not call.signature.parameters:
        return False
    returned = call.signature.return_annotation
    return returned not in (None, "None", "NoReturn", typing.NoReturn, inspect.Signature.empty)


def raised(call: Call) -> set[str]:
    """The classes of errors that its own body raises by name."""
    body = call.call.__init__ if call.is_class else call.call
    body = inspect.unwrap(body)
    if not inspect.isfunction(body) or not is_ours(body):
        return set()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(body))).body[0]
    except (OSError, SyntaxError, TypeError):
        return set()
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    if isinstance(tree.body[-1], ast.Raise) and len(tree.body) == 2:
        said = ast.unparse(tree.body[-1])
        if "NotImplementedError" in said and "to be implemented" in call.doc.lower():
            return set()
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.Raise) and child.exc is not None:
                target = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
                name = (
                    target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
                )
                if name[:1].isupper():
                    found.add(name)
            visit(child)

    visit(tree)
    return found


def kinds(call: Call, name: str) -> set[str]:
    """The name of an error's class, and of those that it is derived from."""
    body = inspect.unwrap(call.call.__init__ if call.is_class else call.call)
    found = getattr(body, "__globals__", {}).get(name)
    above = found.__mro__ if inspect.isclass(found) else ()
    return {name, *(cls.__name__ for cls in above)} - {"Exception", "BaseException", "object"}


def broken(doc: str) -> list[str]:
    """Entries of a docstring that begin with no name, or end in the middle of a sentence."""
    found = []
    for title in ("Args", "Attributes", "Raises"):
        text = sections(doc).get(title, "").strip("\n")
        for entry in re.split(r"\n+(?= {4}\S)", text) if text else ():
            if ENTRY.match(entry) is None or not entry.rstrip().endswith(
                (".", ":", "…", ")", "``", '"')
            ):
                found.append(entry)
    return found


def test_entries_that_were_torn_apart_are_found() -> None:
    whole = "Of.\n\nArgs:\n    a: One that goes\n        on.\n    b: Two."
    assert not broken(whole)
    assert broken(whole.replace("        on.\n    b: Two.", "    b: Two.\n        on."))
    assert broken(whole.replace("        on.", "    on."))


def gaps(call: Call) -> list[str]:
    """What its docstring leaves out."""
    parts = sections(call.doc)
    missing = [f"Args: {name}" for name in unexplained(call)]
    says = {"Returns", "Yields"} & set(parts) or call.doc.startswith(("Return ", "Yield "))
    if gives(call) and not says:
        missing.append("Returns")
    missing += [f"torn apart: {entry.strip()}" for entry in broken(call.doc)]
    told = set(re.findall(r"\w+", parts.get("Raises", "")))
    missing += [f"Raises: {name}" for name in sorted(raised(call)) if not told & kinds(call, name)]
    return missing


@pytest.mark.parametrize("part", PARTS)
def test_a_docstring_says_what_a_call_takes_gives_and_raises(part: str) -> None:
    silent = {}
    for path in public(part):
        try:
            found = list(calls(path))
        except ModuleNotFoundError as error:
            if is_ours(error) or str(error.name).startswith(("heliostat", "ray")):
                raise
            continue  # an extra that is not installed here
        silent |= {call.path: gaps(call) for call in found if gaps(call)}
    assert not silent


def is_compiled(path: str) -> bool:
    name = path.rpartition(".")[2]
    return name in stub() and getattr(_heliostat, name, None) is found_at(path)


def test_what_is_compiled_says_what_its_stub_says() -> None:
    """``help`` shows the comments of the Rust source, the pages show the stub."""
    source = ROOT / "crates/helio-py/src"
    written = set()
    for path in source.rglob("*.rs"):
        for block in re.findall(r"(?:^ *///.*\n)+", path.read_text(), re.MULTILINE):
            lines = [re.sub(r"^ */// ?", "", line) for line in block.splitlines()]
            written.add("\n".join(lines))
    names = [
        path.rpartition(".")[2] for part in PARTS for path in public(part) if is_compiled(path)
    ]
    compiled = {*names, "BaseID"}
    other = []
    for name, doc in stub().items():
        owner, _, method = name.rpartition(".")
        is_shown = name in compiled if not owner else owner in compiled and method[0] != "_"
        if is_shown and doc and doc not in written:
            other.append(name)
    assert not other


def examples(part: str) -> Iterator[doctest.DocTest]:
    """The examples of a part's names, each docstring's once."""
    parser, seen = doctest.DocTestParser(), set()
    for path in public(part):
        thing = found_at(path)
        docs: list[tuple[str, Any, type | None]] = [(path.rpartition(".")[2], thing, None)]
        for cls in thing.__mro__ if inspect.isclass(thing) else ():
            if is_ours(cls):
                docs += [(n, getattr(v, "__func__", v), cls) for n, v in vars(cls).items()]
        for name, documented, owner in docs:
            doc = doc_of(documented, name, owner)
            if ">>> " in doc and doc not in seen:
                seen.add(doc)
                yield parser.get_doctest(doc, {"__name__": "__main__"}, f"{path}: {name}", part, 0)


@pytest.mark.timeout(900)  # a part has up to a hundred programs
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of names that Ray has, and advises against
@pytest.mark.parametrize("part", PARTS)
def test_the_examples_of_docstrings_give_what_they_say(
    request: pytest.FixtureRequest,
    ray_start: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # runs and searches keep their files below it
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    if part == "serve":
        request.getfixturevalue("without_ports")
    tried = 0
    for example in examples(part):
        tried += runner.run(example, out=said.append).attempted
    assert not said, "".join(said)
    assert tried, "no name of these pages has an example"


@pytest.fixture
def without_ports() -> Iterator[None]:
    """Serve without a server: no other program's port is in the way."""
    from ray import serve

    serve.start(http_options={"host": None})
    yield
    serve.shutdown()
