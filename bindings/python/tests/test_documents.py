"""What the documents show is true: examples in docstrings, snippets of the guide, and the reference without warnings."""

import asyncio
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tyr

MODULES = ["tyr", "tyr.aio", "tyr.errors", "tyr.fs", "tyr.zarr"]
GUIDE = Path(__file__).parents[3] / "docs" / "python.md"


def documented():
    """Every module and public object of the package that has a docstring, by name."""
    seen = {}
    for name in MODULES:
        module = importlib.import_module(name)
        seen[name] = module
        for member, found in vars(module).items():
            if not member.startswith("_") and getattr(found, "__module__", "").startswith("tyr") and hasattr(found, "__qualname__"):
                seen[f"{found.__module__}.{found.__qualname__}"] = found
    return seen


def with_examples():
    return [name for name, found in documented().items() if ">>>" in (inspect.getdoc(found) or "")]


@pytest.mark.parametrize("name", with_examples())
def test_examples_in_docstrings_work(name, store, events, place):
    found = documented()[name]
    directory = place + "-async"
    names = {"store": store, "events": events, "directory": directory, "tyr": tyr, "asyncio": asyncio}
    names["counters"] = store.create_keyspace("counters")
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(found), names, name, None, None)
    assert test.examples
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    outcome = doctest.DocTestRunner(optionflags=options).run(test, clear_globs=False)
    assert outcome.failed == 0


def test_there_are_examples_for_what_matters():
    names = with_examples()
    for wanted in ("tyr", "tyr.Store", "tyr.Keyspace", "tyr.Transaction", "tyr.Snapshot", "tyr.fs", "tyr.zarr", "tyr.aio"):
        assert wanted in names


def test_everything_public_is_documented():
    missing = []
    for name, found in documented().items():
        if not inspect.getdoc(found):
            missing.append(name)
        if inspect.isclass(found):
            members = ((member, value) for member, value in vars(found).items() if not member.startswith("_"))
            missing += [f"{name}.{member}" for member, value in members if callable(value) and not inspect.getdoc(value)]
    inherited = [name for name in missing if name.startswith(("tyr.fs.", "tyr.zarr."))]
    assert sorted(set(missing) - set(inherited)) == []


def test_every_snippet_of_the_guide_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    snippets = [(text[: match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    assert len(snippets) >= 15
    names = {"__name__": "guide"}
    for line, snippet in snippets:
        exec(compile("\n" * (line - 1) + snippet, str(GUIDE), "exec"), names)
    names["store"].close()


def test_the_reference_is_built_without_warnings(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "pdoc", "-o", str(tmp_path / "reference")]
    built = subprocess.run([*command, *(name for name in MODULES if name != "tyr.aio")], capture_output=True, text=True)
    assert built.returncode == 0 and not built.stderr, built.stderr
    assert (tmp_path / "reference" / "tyr" / "zarr.html").exists()
