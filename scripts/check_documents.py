#!/usr/bin/env python3
"""Checks the documents: relative links resolve, no file names a path of somebody's machine, and every block that begins with
```sh run works. Such a block runs in an empty directory under `bash -e`; `tyr` must be on the PATH."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {".git", "target", "demo-data", "node_modules", "__pycache__"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:root|home|work|Users)/\w|/tmp/(?:wt|target)\b")
RUNNABLE = re.compile(r"^```sh run\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEXT_SIZE_MAX = 4 << 20


def main():
    problems = []
    for path in files():
        text = text_of(path)
        problems += [f"{path}: {what}" for what in machine_paths(text)]
        if path.suffix == ".md":
            problems += [f"{path}: {what}" for what in broken_links(path, text)]
            problems += [f"{path}: {what}" for what in failing_blocks(text)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def files():
    for directory, names, leaves in os.walk(ROOT):
        names[:] = [name for name in names if name not in SKIPPED]
        yield from (pathlib.Path(directory, leaf) for leaf in leaves if leaf not in SKIPPED)


def text_of(path):
    if path == pathlib.Path(__file__).resolve() or path.is_symlink() or path.stat().st_size > TEXT_SIZE_MAX:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def machine_paths(text):
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield f"line {number}: path of a machine: {line[found.start():].split()[0]}"


def broken_links(path, text):
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"broken link: {target}"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"no such heading: {target}"


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def failing_blocks(text):
    for block in RUNNABLE.findall(text):
        with tempfile.TemporaryDirectory() as directory:
            run = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
        if run.returncode != 0:
            yield f"this block fails with status {run.returncode}:\n{block}{run.stdout}{run.stderr}"


if __name__ == "__main__":
    sys.exit(main())
