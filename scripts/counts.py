#!/usr/bin/env python3
"""Counts the instructions of the hot paths under callgrind, and compares them with the bounds in crates/counts/bounds.txt.

Fails if a count is above its bound by more than the growth that is allowed. Counts depend on the compiler, the C library, and valgrind: with
others than those of the bounds nothing is compared, and that is said. `scripts/counts` builds the program and calls this."""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOUNDS = ROOT / "crates/counts/bounds.txt"
# A change elsewhere may move what is inlined, and memory that grows at another time, by less than this.
GROWTH_MAX = 0.03
# What is better by more than this would be lost unseen if its bound stayed.
SHRINKAGE_MAX = 0.10
COLLECTED = "tyr_counts::collected::collected"


def main():
    parser = argparse.ArgumentParser(prog="scripts/counts", description=__doc__)
    parser.add_argument("program", type=pathlib.Path, help="crates/counts, built")
    parser.add_argument("--record", action="store_true", help="write the bounds anew")
    parser.add_argument("--profile", action="store_true", help="keep what callgrind wrote")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing: scripts/prepare installs it")
    made_by, program = surroundings(), options.program.resolve()
    with tempfile.TemporaryDirectory() as directory:
        if options.profile:
            directory = program.parent / "counts"
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        counts = count(program, pathlib.Path(directory))
    if options.record:
        BOUNDS.write_text(table(made_by, counts), encoding="utf-8")
        print(f"{BOUNDS.relative_to(ROOT)} is written")
        return 0
    return compare(made_by, counts)


def surroundings():
    """What counts depend on besides the code."""
    versions = [["rustc", "--version"], ["valgrind", "--version"]]
    run = [subprocess.run(each, cwd=ROOT, check=True, capture_output=True, text=True).stdout for each in versions]
    compiler, valgrind = run[0].split(" (")[0], run[1].strip()
    return f"{compiler}, {os.confstr('CS_GNU_LIBC_VERSION')}, {valgrind}, {platform.machine()}"


def count(program, directory):
    """The instructions of each path, for one time that it is run. Callgrind writes one file for each, in their order."""
    command = [
        "valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={directory}/path",
        f"--toggle-collect={COLLECTED}", f"--dump-after={COLLECTED}", program,
    ]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counts = {}
    for number, line in enumerate(said.splitlines(), 1):
        path, times = line.rsplit(" ", 1)
        collected = (directory / f"path.{number}").read_text(encoding="utf-8")
        counts[path] = int(re.search(r"^totals: (\d+)", collected, re.MULTILINE)[1]) // int(times)
    return counts


def table(made_by, counts):
    head = [
        "# Instructions of the hot paths, for one time that each is run. Written by scripts/counts --record.",
        f"# by: {made_by}",
    ]
    return "\n".join(head + [f"{path:<48} {count:>10}" for path, count in counts.items()]) + "\n"


def compare(made_by, counts):
    text = BOUNDS.read_text(encoding="utf-8")
    recorded_by = re.search(r"^# by: (.*)$", text, re.MULTILINE)[1]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    bounds = {path.strip(): int(bound) for path, bound in (line.rsplit(" ", 1) for line in lines)}
    is_same = made_by == recorded_by
    too_many, far_fewer = [], []
    for path, count in counts.items():
        bound = bounds.get(path)
        change = (count - bound) / bound if bound else 0.0
        print(f"{path:<48} {count:>10}", f"{change:>+8.1%}" if bound else "     new")
        if change > GROWTH_MAX:
            too_many.append(path)
        if change < -SHRINKAGE_MAX:
            far_fewer.append(path)
    if not is_same:
        print(f"not compared: the bounds were recorded with {recorded_by}, and this is {made_by}")
        return 0
    unknown = sorted(bounds.keys() ^ counts.keys())
    for path in far_fewer:
        print(f"{path}: far below its bound; keep what was won: scripts/counts --record")
    for path in unknown:
        print(f"{path}: is counted or has a bound, not both; scripts/counts --record", file=sys.stderr)
    for path in too_many:
        print(f"{path}: more than {GROWTH_MAX:.0%} above its bound", file=sys.stderr)
    if too_many:
        print("find out why (scripts/counts --profile); if it is worth it: scripts/counts --record", file=sys.stderr)
    return 1 if too_many or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
