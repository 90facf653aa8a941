"""Servers of a cluster: processes on this machine, which end with the tests."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import tyr

COMMAND = os.environ.get("TYR_COMMAND", "tyr")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Servers:
    """Three nodes with three replicas of everything."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tyr-python-servers-"))
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        self.processes: list[subprocess.Popen | None] = [None] * 3
        self.unready: set[int] = set()
        try:
            for node in range(3):
                self.start(node)
                self.wait()
        except BaseException:
            self.end()
            raise

    @property
    def url(self) -> str:
        return "tyr://" + ",".join(self.addresses)

    def start(self, node: int) -> None:
        """Starts a node, and does not wait until it serves."""
        command = [COMMAND, "server", "--json", "--directory", str(self.directory / str(node))]
        command += ["--listen", self.addresses[node], "--partitions", "16", "--replicas", "3", "--log", "error"]
        if node:
            command += ["--join", self.addresses[0]]
        environment = {**os.environ, "TYR_STORE_SEGMENT_SIZE": "1MiB"}
        with open(self.directory / f"{node}.log", "ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log)
        self.processes[node] = process
        self.unready.add(node)

    def kill(self, node: int) -> None:
        process = self.processes[node]
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.processes[node] = None
        self.unready.discard(node)

    def wait(self) -> None:
        """Waits until all that were started say that they are ready."""
        while self.unready:
            node = self.unready.pop()
            process = self.processes[node]
            assert process is not None and process.stdout is not None
            for line in process.stdout:
                if b'"ready"' in line:
                    break
            else:
                raise AssertionError((self.directory / f"{node}.log").read_text())

    def clear(self) -> None:
        """Leaves nothing of a scenario behind."""
        for node, process in enumerate(self.processes):
            if process is None:
                self.start(node)
        self.wait()
        with tyr.open(self.url) as store:
            for keyspace in store.keyspaces():
                store.drop_keyspace(keyspace.name)

    def end(self) -> None:
        for process in self.processes:
            if process is not None:
                process.kill()
                process.communicate()
        shutil.rmtree(self.directory)
