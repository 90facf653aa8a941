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
    ("read", 100, 40000, 1500, 0, SMALL),
    ("write", 8, 20000, 400, 0, SMALL),
    ("append", 64, 20000, 400, 0, SMALL),
    ("add", 8, 20000, 400, 0, SMALL),
    ("read", 100, 20000, 6000, 16, SMALL),
    ("append", 64, 10000, 2000, 16, SMALL),
    ("read", 1 << 20, 400, 100, 0, LARGE),
    ("write", 1 << 20, 60, 40, 0, LARGE),
]


class Program:
    """One half of the comparison."""

    def __init__(self, path, store):
        self.process = subprocess.Popen([path, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, workload, count, size, depth):
        """Nanoseconds for one."""
        self.process.stdin.write(f"{workload} {count} {size} {depth}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / count

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise RuntimeError("a program failed")


def compare(title, rust, c, in_cluster, rounds):
    print(f"{title}: medians of {rounds} rounds, alternating")
    print(f"{'workload':<22}{'per round':>10}{'Rust, us':>12}{'C, us':>12}{'ratio':>8}{'bound':>8}")
    within = True
    for workload, size, embedded, clustered, depth, bound in WORKLOADS:
        count = clustered if in_cluster else embedded
        times = {rust: [], c: []}
        for number in range(rounds + 1):
            # Who begins alternates, too.
            for program in (rust, c) if number % 2 else (c, rust):
                took = program.measure(workload, count, size, depth)
                if number:
                    times[program].append(took)
        mine, theirs = statistics.median(times[c]), statistics.median(times[rust])
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
    scratch = pathlib.Path(tempfile.mkdtemp())
    cluster = None
    try:
        rust, c = Program(arguments.rust, scratch / "rust"), Program(arguments.c, scratch / "c")
        within = compare("directory, durability memory", rust, c, False, arguments.rounds)
        rust.end(), c.end()
        cluster = subprocess.Popen([arguments.tyr, "--json", "dev", "-n", "3"], stdout=subprocess.PIPE, text=True)
        url = json.loads(cluster.stdout.readline())["url"]
        rust, c = Program(arguments.rust, url), Program(arguments.c, url)
        within &= compare("cluster of 3 nodes on this machine", rust, c, True, arguments.rounds)
        rust.end(), c.end()
    finally:
        if cluster:
            cluster.terminate()
            cluster.wait()
        shutil.rmtree(scratch)
    print("within the bounds" if within else "NOT within the bounds")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
