#!/usr/bin/env python3
"""Runs the code of the guide. A block with a main function is a program; the other blocks of a language are one program, in their order, in which
CHECK and ENSURE end it with an error. Blocks of `sh` run beside the first C program, program.c.

usage: check_guide.py GUIDE PREFIX
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(c|cpp|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROLOGUE = """
#define ENSURE(condition) do { if (!(condition)) { fprintf(stderr, "not so: %s\\n", #condition); exit(1); } } while (0)
#define CHECK(call) do { if ((call) != TYR_OK) { fprintf(stderr, "%s: %s\\n", #call, tyr_error_message()); exit(1); } } while (0)
"""
INCLUDES = {
    "c": "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <tyr.h>\n",
    "cpp": "#include <atomic>\n#include <cstdio>\n#include <cstdlib>\n#include <string>\n#include <vector>\n#include <tyr.hpp>\n",
}
COMPILERS = {"c": ["gcc", "-std=gnu11"], "cpp": ["g++", "-std=c++17"]}


def programs(blocks):
    for language in COMPILERS:
        pieces = [text for kind, text in blocks if kind == language]
        yield from ((language, text) for text in pieces if "int main(" in text)
        rest = "".join(text for text in pieces if "int main(" not in text)
        yield language, f"{INCLUDES[language]}{PROLOGUE}int main(void) {{\n{rest}\nreturn 0;\n}}\n"


def run(words, directory, **more):
    ended = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=120, **more)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} ends with {ended.returncode}:\n{ended.stdout}{ended.stderr}")


def main():
    blocks = BLOCK.findall(pathlib.Path(sys.argv[1]).read_text())
    prefix = pathlib.Path(sys.argv[2]).resolve()
    ran = 0
    for language, text in programs(blocks):
        with tempfile.TemporaryDirectory() as directory:
            source, program = pathlib.Path(directory, f"program.{language}"), pathlib.Path(directory, "built")
            source.write_text(text)
            library = [f"-I{prefix}/include", f"-L{prefix}/lib", "-ltyr", f"-Wl,-rpath,{prefix}/lib", "-pthread"]
            run([*COMPILERS[language], "-Wall", "-Wextra", source, "-o", program, *library], directory)
            run([program], directory)
            ran += 1
    first = next(text for kind, text in blocks if kind == "c")
    for kind, text in blocks:
        if kind == "sh":
            with tempfile.TemporaryDirectory() as directory:
                pathlib.Path(directory, "program.c").write_text(first)
                run(["bash", "-euo", "pipefail", "-c", text], directory, env={**os.environ, "PREFIX": str(prefix)})
                ran += 1
    print(f"{len(blocks)} pieces of the guide run, as {ran} programs")
    return 0 if ran >= 5 else 1


if __name__ == "__main__":
    sys.exit(main())
