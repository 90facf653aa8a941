#!/usr/bin/env python3
"""Measures what mounts cost that have a file open and do nothing: the processor time of all of them, and of three nodes.

Usage: scripts/fs_idle.py TYR [MOUNTS...]"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from fs_cluster import Nodes

SECONDS = 10
MOUNTED_WITHIN = 30
TICKS = os.sysconf("SC_CLK_TCK")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tyr = pathlib.Path(sys.argv[1]).resolve()
    counts = sorted(int(word) for word in sys.argv[2:]) or [1, 5, 17, 41]
    with tempfile.TemporaryDirectory() as place, Nodes(tyr, pathlib.Path(place)) as nodes:
        mounts = []
        try:
            print("mounts  mounts' ms/s  servers' ms/s")
            for count in counts:
                while len(mounts) < count:
                    mounts.append(Mount(tyr, nodes.url, pathlib.Path(place) / f"mount-{len(mounts)}"))
                # What joining has left to do.
                time.sleep(3)
                measured = [[mount.process for mount in mounts], nodes.processes]
                before = [sum(map(spent, processes)) for processes in measured]
                time.sleep(SECONDS)
                after = [sum(map(spent, processes)) for processes in measured]
                of_mounts, of_servers = (1000 * (end - begin) / SECONDS for begin, end in zip(before, after, strict=True))
                print(f"{count:6}  {of_mounts:12.0f}  {of_servers:13.0f}", flush=True)
        finally:
            for mount in mounts:
                mount.end()


class Mount:
    """A mount with a file open."""

    def __init__(self, tyr, url, place):
        self.place, self.file = place, None
        place.mkdir()
        self.process = subprocess.Popen([tyr, "mount", "--create", f"{url}/files", place], stdout=subprocess.DEVNULL)
        end = time.monotonic() + MOUNTED_WITHIN
        while not place.is_mount():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                sys.exit(f"nothing is mounted on {place}")
            time.sleep(0.1)
        self.file = (place / place.name).open("w")

    def end(self):
        if self.file:
            self.file.close()
        subprocess.run(["umount", self.place], check=False)
        self.process.wait()


def spent(process):
    """Seconds of processor time that a process has taken."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
