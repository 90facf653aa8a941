"""The examples do what they say."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_many_writers_lose_nothing(servers):
    servers.clear()
    command = [sys.executable, str(EXAMPLES / "many_writers.py"), servers.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ended.returncode == 0, ended.stderr
    assert "15 updates" in ended.stdout
    servers.clear()
