#!/usr/bin/env python3
"""What libtyr costs over the Rust client: both do the same, one after the other and alternating, and the medians are compared.

usage: compare.py RUST C TYR [--rounds N]
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SMALL, LARGE = 1.20, 1.05
# Workload, size, how many per round in a directory and in a cluster, depth (0: one at a time, waiting), and the bound.
WORKLOADS = [
    ("read", 100, 100000, 1000, 0, SMALL),
    ("write", 8, 20000, 200, 0, SMALL),
    ("append", 64, 20000, 200, 0, SMALL),
    ("add", 8, 20000, 200, 0, SMALL),
    ("read", 100, 60000, 3000, 16, SMALL),
    ("append", 64, 10000, 1000, 16, SMALL),
    ("read", 1 << 20, 400, 100, 0, LARGE),
    ("write", 1 << 20, 60, 20, 0, LARGE),
]


class Program:
    """One half of the comparison."""

    def __init__(self, path, store):
        self.process = subprocess.Popen([path, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{path} does not start")

    def measure(self, workload, count, size, depth):
        """Nanoseconds for one."""
        self.process.stdin.write(f"{workload} {count} {size} {depth}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / count

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise RuntimeError("a program failed")


def measure_all(programs, times, in_cluster, number):
    """One round of everything; who begins alternates."""
    for place, (workload, size, embedded, clustered, depth, _) in enumerate(WORKLOADS):
        count = clustered if in_cluster else embedded
        for name in ("rust", "c") if (number + place) % 2 else ("c", "rust"):
            programs[name].measure(workload, count // 10, size, depth)
            times[place][name].append(programs[name].measure(workload, count, size, depth))


def compare(title, paths, stores, in_cluster, rounds):
    """Measures in pairs of programs, each of which does a few rounds. On a cluster it is one, because which connection is served by which thread is a
    matter of luck, and makes more of a difference than what is measured."""
    times = [{"rust": [], "c": []} for _ in WORKLOADS]
    pairs, rounds = (4 * rounds, 1) if in_cluster else (rounds, 3)
    for pair in range(pairs):
        programs = {name: Program(paths[name], stores[name]) for name in paths}
        for number in range(rounds):
            measure_all(programs, times, in_cluster, pair + number)
        for program in programs.values():
            program.end()
    print(f"{title}: medians of {len(times[0]['c'])} rounds, alternating, with {pairs} pairs of programs")
    print(f"{'workload':<22}{'per round':>10}{'Rust, us':>12}{'C, us':>12}{'ratio':>8}{'bound':>8}")
    within = True
    for (workload, size, embedded, clustered, depth, bound), took in zip(WORKLOADS, times):
        count = clustered if in_cluster else embedded
        mine, theirs = statistics.median(took["c"]), statistics.median(took["rust"])
        ratio = mine / theirs
        within &= ratio <= bound
        name = f"{workload} {size if size < 1024 else '1 MiB'}" + (f", {depth} at once" if depth else "")
        print(f"{name:<22}{count:>10}{theirs / 1000:>12.2f}{mine / 1000:>12.2f}{ratio:>8.3f}{bound:>8.2f}", flush=True)
    return within


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rust")
    parser.add_argument("c")
    parser.add_argument("tyr")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    paths = {"rust": arguments.rust, "c": arguments.c}
    scratch = pathlib.Path(tempfile.mkdtemp())
    cluster = None
    try:
        stores = {name: scratch / name for name in paths}
        within = compare("directory, durability memory", paths, stores, False, arguments.rounds)
        command = [arguments.tyr, "--json", "dev", "-n", "3", "--log", "error"]
        cluster = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        url = json.loads(cluster.stdout.readline())["url"]
        title = "cluster of 3 nodes on this machine, durability disk"
        within &= compare(title, paths, dict.fromkeys(paths, url), True, arguments.rounds)
    finally:
        if cluster:
            cluster.terminate()
            cluster.wait()
        shutil.rmtree(scratch)
    print("within the bounds" if within else "NOT within the bounds")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
