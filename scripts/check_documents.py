#!/usr/bin/env python3
"""Checks the documents: relative links resolve, no file names a path of somebody's machine, and every block that begins with
```sh run works. Such a block runs in an empty directory under `bash -e`; `tyr` must be on the PATH.

A document with blocks that begin with ```sh run on nodes has a cluster for all of them: three nodes, whose addresses stand in for 10.0.0.1:7700 and so on,
and directories of the check for /var/lib/tyr, /etc/tyr, and /mnt. There `tyr server` goes on in the background, and returns when the node is ready.

In the documents for users every block of code is run by something: it is such a block, or one in a file all of which a test runs, or
the line after it says by what it is run, or why it is not: <!-- run by: PATH ... --> or <!-- not run: ... -->. What docs/limits.md says is
what the code says, and its pictures are those that scripts/pictures.py draws."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {".git", "target", "demo-data", "node_modules", "__pycache__"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(?:root|home|work|Users)/\w|/tmp/(?:wt|target)\b")
RUNNABLE = re.compile(r"^```sh run\n(.*?)^```", re.MULTILINE | re.DOTALL)
ON_NODES = re.compile(r"^```sh run on nodes\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What stands before each block that is run on nodes: small nodes, which are waited for.
ON_NODES_HEAD = """
if [[ -f $PLACE/environment ]]; then source "$PLACE/environment"; fi
trap 'export -p | grep " TYR_" >"$PLACE/environment" || true' EXIT
tyr() {
    if [[ $1 != server ]]; then command tyr "$@"; return; fi
    local own=() before= number log
    touch "$PLACE/nodes"
    number=$(wc -l <"$PLACE/nodes")
    log=$PLACE/log-$number
    touch "$log"
    for word in "${@:2}"; do
        # Each node has a machine of its own.
        if [[ $before == --directory || $before == --targets ]]; then word=${word//$PLACE/$PLACE/machine-$number}; fi
        own+=("$word")
        before=$word
    done
    command tyr server --json --log error --partitions 16 --segment-size 1MiB "${own[@]}" >"$log" 2>&1 &
    echo $! >>"$PLACE/nodes"
    until grep -q '"ready"' "$log"; do kill -0 $! || { cat "$log"; return 1; }; done
}
"""
TEXT_SIZE_MAX = 4 << 20
# For users. What is run elsewhere as a whole, and by what.
USERS = ["README.md", *(f"docs/{name}.md" for name in (
    "backup", "c", "client", "concepts", "errors", "getting-started", "json", "limits", "observability", "operations", "performance", "python", "security", "tx-script",
))]
RUN_BY = {
    "docs/c.md": "scripts/bindings-c",
    "docs/python.md": "bindings/python/tests/test_documents.py",
    "docs/errors.md": "crates/tyr/src/reference.rs",
    "docs/json.md": "crates/tyr/tests/cli/json.rs",
}
FENCE = re.compile(r"^```")
LIMIT = re.compile(r"^\| [^|]*\| ([^|]*) \| `([a-z-]+)` \| <!-- (\S+) (?:\"(.*)\"|(\w+) = (.*)) -->$")


def main():
    problems = []
    for path in files():
        text = text_of(path)
        problems += [f"{path}: {what}" for what in machine_paths(text)]
        if path.suffix == ".md":
            problems += [f"{path}: {what}" for what in broken_links(path, text)]
            problems += [f"{path}: {what}" for what in failing_blocks(text)]
            problems += [f"{path}: {what}" for what in failing_on_nodes(text)]
            problems += [f"{path}: {what}" for what in unrun_blocks(path.relative_to(ROOT).as_posix(), text)]
    problems += [f"docs/limits.md: {what}" for what in wrong_limits((ROOT / "docs/limits.md").read_text(encoding="utf-8"))]
    pictures = subprocess.run([sys.executable, ROOT / "scripts/pictures.py", "--check"], capture_output=True, text=True, check=False)
    problems += [pictures.stderr] if pictures.returncode else []
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


def failing_on_nodes(text):
    """Blocks that do not work on a cluster that lasts for all of the document."""
    blocks = ON_NODES.findall(text)
    if not blocks:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        place = pathlib.Path(directory)
        ports = free_ports(9)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TYR_")} | {"PLACE": directory}
        try:
            for block in blocks:
                code = re.sub(r"10\.0\.0\.(\d):(\d)70(\d)", lambda found: f"127.0.0.1:{ports[int(found[1]) - 1 + 4 * int(found[3])]}", block)
                code = re.sub(r"/var/lib/tyr(-\d)?|/etc/tyr|/mnt", lambda found: f"{place}{found[0]}", code)
                (place / "etc/tyr").mkdir(parents=True, exist_ok=True)
                command = ["bash", "-euo", "pipefail", "-c", ON_NODES_HEAD + code]
                run = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
                if run.returncode != 0:
                    yield f"this block fails on nodes with status {run.returncode}:\n{block}{run.stdout}{run.stderr}"
                    return
        finally:
            nodes = place / "nodes"
            for number in nodes.read_text().split() if nodes.exists() else []:
                try:
                    os.kill(int(number), signal.SIGTERM)
                except ProcessLookupError:
                    pass


def free_ports(count):
    """As many ports that nobody has."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def unrun_blocks(name, text):
    """Blocks of code that nothing runs."""
    if name not in USERS:
        return
    if name in RUN_BY:
        test = ROOT / RUN_BY[name]
        if not test.exists() or pathlib.Path(name).name not in test.read_text(encoding="utf-8"):
            yield f"{RUN_BY[name]} does not run it"
        return
    lines = text.splitlines()
    begun = None
    for number, line in enumerate(lines, 1):
        if not FENCE.match(line):
            continue
        if begun is None:
            begun = (number, line.removeprefix("```").strip())
            continue
        (first, language), begun = begun, None
        after = lines[number].strip() if number < len(lines) else ""
        marker = re.fullmatch(r"<!-- (run by|not run): (.+) -->", after)
        if language in ("sh run", "sh run on nodes", "text", "") and not marker:
            continue
        if not marker:
            yield f"line {first}: nothing runs this block, and nothing says why"
        elif marker[1] == "run by" and not (ROOT / marker[2].split()[0].rstrip(",;")).exists():
            yield f"line {first}: there is no {marker[2].split()[0]}"


def wrong_limits(text):
    """Numbers that the code does not say, and kinds of errors that there are not."""
    kinds = set(re.findall(r"^\| \d+ \| `([a-z-]+)`", (ROOT / "docs/errors.md").read_text(encoding="utf-8"), re.MULTILINE))
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| ") or "the most |" in line or "how long |" in line:
            continue
        found = LIMIT.match(line)
        if not found:
            yield f"line {number}: it does not say where the code has it"
            continue
        said, kind, file, words, name, value = found.groups()
        code = (ROOT / file).read_text(encoding="utf-8")
        if kind not in kinds:
            yield f"line {number}: there is no kind {kind}"
        if words is not None and words not in code:
            yield f"line {number}: {file} has no {words}"
        if name is not None:
            if not re.search(rf"const {name}: [\w:]+ = {re.escape(value)};", code):
                yield f"line {number}: {file} has no {name} = {value}"
            elif (number_of(value) or 0) not in (0, number_of(said)):
                yield f"line {number}: it says {said}, and the code {value}"


def number_of(text):
    """What a number means as a document or as code has it; none if it is a word, or a time in other units."""
    units = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1_000_000, "min": 60_000_000}
    if found := re.fullmatch(r"([\d_]+)(?: << (\d+))?", text):
        return int(found[1]) << int(found[2] or 0)
    if found := re.fullmatch(r"(\d+) ?(\w*)", text):
        return int(found[1]) * units[found[2]]
    return None


if __name__ == "__main__":
    sys.exit(main())
