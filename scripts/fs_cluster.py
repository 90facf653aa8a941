"""A cluster whose nodes are processes of this machine, each of which can be killed and started again."""

import contextlib
import json
import socket
import subprocess


class Nodes:
    """Three nodes that hold everything three times, until the block ends.

    With a link they are reached through it only: a program and its first argument, of which the others are ADDRESS=ADDRESS. The flags are
    those of each node.
    """

    def __init__(self, tyr, place, link=None, flags=()):
        self.tyr, self.place, self.flags = tyr, place, flags
        self.processes, self.addresses, self.behind = [], [], []
        self.link = None
        try:
            if link:
                self.addresses, self.behind = free_addresses(3), free_addresses(3)
                links = [f"{near}={far}" for near, far in zip(self.addresses, self.behind, strict=True)]
                self.link = subprocess.Popen([*link, *links], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                if self.link.stdout.readline() != "listening\n":
                    raise SystemExit(f"{link} has ended with {self.link.wait()}")
            for number in range(3):
                if not link:
                    self.addresses.append("127.0.0.1:0")
                self.processes.append(None)
                self.start(number)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return "tyr://" + ",".join(self.addresses)

    def start(self, number):
        """Starts a node, for the first time or again, and waits until it holds its share."""
        others = [address for place, address in enumerate(self.addresses[: len(self.processes)]) if place != number]
        listen = self.behind[number] if self.behind else self.addresses[number]
        command = [self.tyr, "server", "--json", "--log", "off", "--listen", listen, "--directory", self.place / f"node-{number}", *self.flags]
        command += ["--advertise", self.addresses[number]] if self.behind else []
        command += ["--join", ",".join(others)] if others else []
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        self.processes[number] = process
        for line in process.stdout:
            said = json.loads(line)
            if not self.behind:
                self.addresses[number] = said.get("address", self.addresses[number])
            if said.get("event") == "ready":
                break
        else:
            raise SystemExit(f"node {number} has ended with {process.wait()}")
        command = [self.tyr, "--store", f"tyr://{','.join([*others, self.addresses[number]])}", "cluster", "add", str(said["node"])]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def kill(self, number):
        """Ends a node as if its machine had lost its power."""
        self.processes[number].kill()
        self.processes[number].communicate()

    def stop(self):
        running = [process for process in self.processes if process and process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            process.communicate(timeout=60)
        if self.link:
            self.link.communicate(timeout=60)


def free_addresses(count):
    """Addresses of this machine at which nobody listens now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return ["{}:{}".format(*one.getsockname()) for one in sockets]
