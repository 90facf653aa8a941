"""What a type checker says of programs that use the package."""

import re
import sys
import tempfile
from pathlib import Path

import pytest
from mypy import api

CONFIG = Path(__file__).parents[1] / "pyproject.toml"
PROGRAM = """
import array

import numpy as np
import tyr

def use(events: tyr.Keyspace, transaction: tyr.Transaction) -> None:
    events.put("a", np.arange(3))
    events.read_into(b"a", np.zeros(3))
    events.put_many({"a": np.zeros((2, 2))})
    events.put("a", array.array("b"))
    transaction.write(events, "a", 0, memoryview(b"bytes"))
    events.put("a", "text")
    events.put("a", 3)
"""


IN_TRANSACTIONS = """
import tyr

def blocking(store: tyr.Store, events: tyr.Keyspace) -> None:
    for attempt in store.retrying():
        with attempt as transaction:
            reveal_type(transaction)
    for scoped in events.retrying():
        with scoped as inner:
            reveal_type(inner.read("a"))
    with events.transaction() as one:
        one.put("a", "text")
    reveal_type(store.run(lambda each: each.read(events, "a")))
    reveal_type(events.run(lambda each: each.append("a", b"b")))
    reveal_type(events.run(lambda each: each.transaction))

async def awaited(store: tyr.aio.Store, events: tyr.aio.Keyspace) -> None:
    async for attempt in store.retrying():
        async with attempt as transaction:
            reveal_type(transaction)
    async for scoped in events.retrying():
        async with scoped as inner:
            reveal_type(await inner.read("a"))
            inner.commit("a")
"""
SAID = {
    7: 'note: Revealed type is "tyr._tyr.Transaction"',
    10: 'note: Revealed type is "bytes"',
    12: "error: Argument 2",
    13: 'note: Revealed type is "bytes"',
    14: 'note: Revealed type is "tyr._tyr.Slot"',
    15: 'note: Revealed type is "tyr._tyr.Transaction"',
    20: 'note: Revealed type is "tyr._tyr.AioTransaction"',
    23: 'note: Revealed type is "bytes"',
    24: "error: Too many arguments",
}


def said_of(program: Path) -> dict[int, str]:
    """What mypy says of a program, by line."""
    # Where the package was checked just before: the stubs of numpy take long.
    cache = Path(tempfile.gettempdir()) / "mypy"
    options = ["--config-file", str(CONFIG), "--python-executable", sys.executable, "--cache-dir", str(cache)]
    said, failed, _ = api.run([*options, str(program)])
    assert not failed
    told = re.findall(rf"{program.name}:(\d+): ((?:error|note): .*)$", said, re.M)
    return {int(line): text for line, text in reversed(told)}  # of several, the first


@pytest.mark.timeout(600)
def test_arrays_are_buffers_and_text_is_not(tmp_path):
    (program := tmp_path / "program.py").write_text(PROGRAM)
    said = said_of(program)
    assert said.keys() == {13, 14} and all(text.startswith("error: ") for text in said.values()), said


@pytest.mark.timeout(600)
def test_operations_of_transactions_have_types_in_both_faces(tmp_path):
    (program := tmp_path / "program.py").write_text(IN_TRANSACTIONS)
    said = said_of(program)
    assert said.keys() == SAID.keys(), said
    for line, beginning in SAID.items():
        assert said[line].startswith(beginning), said
