"""Measures the same program on a mount and with the preload library, in turn, on one cluster: small files created, and opened, read, and closed; 1 MiB
pieces of a file written and read one after the other; and the small files in a flat keyspace."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
from pathlib import Path

WORK = """
import os, sys, time
here, count = sys.argv[1], int(sys.argv[2])
os.makedirs(f"{here}/set", exist_ok=True)
content, piece = b"x" * 4096, b"y" * (1 << 20)
def timed(what, number, body):
    begun = time.perf_counter()
    body()
    print(what, number / (time.perf_counter() - begun))
def create():
    for number in range(count):
        file = os.open(f"{here}/set/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, content)
        os.close(file)
def fetch():
    for number in range(count):
        file = os.open(f"{here}/set/{number}", os.O_RDONLY)
        assert len(os.read(file, 8192)) == 4096
        os.close(file)
def write():
    file = os.open(f"{here}/large", os.O_WRONLY | os.O_CREAT)
    for _ in range(64):
        os.write(file, piece)
    os.close(file)
def read():
    file = os.open(f"{here}/large", os.O_RDONLY)
    while os.read(file, 1 << 20):
        pass
    os.close(file)
timed("create", count, create)
timed("open-read-close", count, fetch)
timed("write", 64, write)
timed("read", 64, read)
for number in range(count):
    os.unlink(f"{here}/set/{number}")
os.unlink(f"{here}/large")
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tyr", required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--nodes", default="1")
    parser.add_argument("--files", default="500")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    server = subprocess.Popen([options.tyr, "--json", "dev", "-n", options.nodes], stdout=subprocess.PIPE, text=True)
    told = {}
    try:
        url = json.loads(server.stdout.readline())["url"]
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch) / "mount"
            place.mkdir()
            mount = subprocess.Popen([options.tyr, "mount", "--create", f"{url}/files", place], stdout=subprocess.PIPE, text=True)
            assert mount.stdout.readline().startswith("mounted ")
            library = {"LD_PRELOAD": str(Path(options.preload).resolve())}
            ways = {
                "mount": (place / "work", {}),
                "preload": ("/tyr-compare/work", {**library, "TYR_MOUNT": f"/tyr-compare={url}/files"}),
                "preload, flat": ("/tyr-compare/work", {**library, "TYR_MOUNT": f"/tyr-compare={url}/flat,create,flat"}),
            }
            for _ in range(options.rounds):
                for name, (here, environment) in ways.items():
                    done = subprocess.run(["/usr/bin/python3", "-c", WORK, str(here), options.files],
                                          env={**os.environ, **environment}, capture_output=True, text=True, check=True)
                    for line in done.stdout.splitlines():
                        what, rate = line.split()
                        told.setdefault(what, {}).setdefault(name, []).append(float(rate))
            mount.send_signal(signal.SIGTERM)
            mount.wait(timeout=60)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
    print(f"a second, median of {options.rounds} rounds (least to most); {options.nodes} nodes, {options.files} files of 4 KiB")
    for what, rates in told.items():
        cells = [f"{name} {statistics.median(rate):.0f} ({min(rate):.0f} to {max(rate):.0f})" for name, rate in rates.items()]
        print(f"{what}: {', '.join(cells)}")


if __name__ == "__main__":
    main()
