"""A cluster that asks who somebody is."""

import os
import subprocess

import pytest
import tyr
from servers import COMMAND, free_port


@pytest.fixture
def guarded(tmp_path):
    """A node with a secret, and the file of a token that may write one keyspace."""
    secret, token = tmp_path / "secret", tmp_path / "token"
    address = f"127.0.0.1:{free_port()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TYR_")}
    operator = environment | {"TYR_STORE": f"tyr://{address}", "TYR_SECRET_FILE": str(secret), "TYR_STORE_SEGMENT_SIZE": "1MiB"}

    def run(*arguments: str) -> None:
        subprocess.run([COMMAND, *arguments], env=operator, check=True, capture_output=True)

    subprocess.run([COMMAND, "secret", str(secret)], env=environment, check=True, capture_output=True)
    command = [COMMAND, "server", "--json", "--log", "error", "--partitions", "4", "--listen", address, "--directory", str(tmp_path / "node")]
    process = subprocess.Popen(command, env=operator, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert any(b'"ready"' in line for line in process.stdout)
        run("keyspace", "create", "events")
        run("user", "create", "ada")
        run("grant", "ada", "read,write", "events")
        run("token", "create", "ada", "--output", str(token))
        yield f"tyr://{address}", token
    finally:
        process.kill()
        process.communicate()


def test_a_token_is_an_option(guarded, monkeypatch):
    url, token = guarded
    for name in ("TYR_TOKEN", "TYR_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(tyr.Denied):
        tyr.open(url, connect_timeout=20.0)
    for options in ({"token": token.read_text()}, {"token_file": token}):
        with tyr.open(url, **options) as store:
            store.keyspace("events").put("a", b"x")
            with pytest.raises(tyr.Denied):
                store.create_keyspace("mine")


def test_what_is_no_token_is_refused_and_not_repeated(tmp_path):
    wrong = "tyr1-4711notatoken"
    for options in ({"token": wrong}, {"token": "", "token_file": None}, {"token_file": tmp_path / "missing"}, {"token": wrong, "token_file": "x"}):
        with pytest.raises(tyr.Invalid) as failure:
            tyr.open("tyr://127.0.0.1:1", **options)
        assert "4711" not in str(failure.value)
