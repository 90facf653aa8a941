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
        for node in range(3):
            self.start(node)
            self.wait()

    @property
    def url(self) -> str:
        return "tyr://" + ",".join(self.addresses)

    def start(self, node: int) -> None:
        command = [COMMAND, "server", "--directory", str(self.directory / str(node))]
        command += ["--listen", self.addresses[node], "--partitions", "16", "--replicas", "3", "--log", "error"]
        if node:
            command += ["--join", self.addresses[0]]
        environment = {**os.environ, "TYR_STORE_SEGMENT_SIZE": "1MiB"}
        log = open(self.directory / f"{node}.log", "ab")
        self.processes[node] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        log.close()

    def kill(self, node: int) -> None:
        process = self.processes[node]
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.processes[node] = None

    def wait(self) -> None:
        """Waits until everything is served by all that run."""
        running = [self.addresses[node] for node, process in enumerate(self.processes) if process]
        command = [COMMAND, "cluster", "status", "--wait", "60", "--store", "tyr://" + ",".join(running)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

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
                process.wait()
        shutil.rmtree(self.directory)
