#!/usr/bin/env python3
"""Checks that the headers are those of the library: every function that it exports is declared, and the other way round; every function has a
comment that names each parameter; the C++ header uses every function.

usage: check_header.py INCLUDE LIBRARY
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*\n[^\n;{}#/]*?\b(tyr_\w+)\(([^;{]*)\);", re.DOTALL)
DECLARED = re.compile(r"^(?!typedef)[\w][\w \*]*?\b(tyr_\w+)\(", re.MULTILINE)


def main():
    include, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    header, cpp = (include / "tyr.h").read_text(), (include / "tyr.hpp").read_text()
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    exported = {word for line in symbols.stdout.splitlines() if (word := line.split()[-1]).startswith("tyr_")}
    declared = set(DECLARED.findall(header)) - {"tyr_text", "tyr_some"}
    problems = [f"{name} is exported and not declared" for name in exported - declared]
    problems += [f"{name} is declared and not exported" for name in declared - exported]
    documented = {}
    for comment, name, parameters in FUNCTION.findall(header):
        documented[name] = comment
        for parameter in parameters.split(","):
            own = re.search(r"(\w+)$", parameter.strip())[1]
            if own != "void" and f"@param {own} " not in comment:
                problems.append(f"{name}: the comment does not say what {own} is")
    problems += [f"{name} has no comment" for name in declared - set(documented)]
    used = set(re.findall(r"\btyr_\w+", cpp))
    problems += [f"tyr.hpp does not use {name}" for name in declared - used]
    if len(declared) < 60:
        problems.append(f"only {len(declared)} functions were found")
    for problem in sorted(problems):
        print(problem, file=sys.stderr)
    print(f"{len(declared)} functions are declared, exported, documented, and in the C++ header")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
