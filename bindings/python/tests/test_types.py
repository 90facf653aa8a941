"""What a type checker says of programs that use the package."""

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


@pytest.mark.timeout(600)
def test_arrays_are_buffers_and_text_is_not(tmp_path):
    (program := tmp_path / "program.py").write_text(PROGRAM)
    # Where the package was checked just before: the stubs of numpy take long.
    cache = Path(tempfile.gettempdir()) / "mypy"
    options = ["--config-file", str(CONFIG), "--python-executable", sys.executable, "--cache-dir", str(cache)]
    said, failed, _ = api.run([*options, str(program)])
    assert not failed
    wrong = [line for line in said.splitlines() if ": error:" in line]
    assert len(wrong) == 2 and all(f"program.py:{line}: " in told for line, told in zip((13, 14), wrong)), said
