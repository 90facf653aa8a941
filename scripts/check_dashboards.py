#!/usr/bin/env python3
"""Checks with promtool that what the dashboards in ops/grafana ask Prometheus is well formed. That nodes give what it names, and that Grafana
can load the rest, is checked by a test of the command."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    rules = []
    for path in sorted((ROOT / "ops/grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                # What Grafana puts in place of its variables.
                asked = target["expr"].replace("$__rate_interval", "5m")
                asked = re.sub(r"\$\w+", ".*", asked)
                rules.append({"record": f"panel:{path.stem}_{panel['id']}_{target['refId']}", "expr": asked})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"groups": [{"name": "dashboards", "rules": rules}]}, file)
        file.flush()
        checked = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
    if checked.returncode or not rules:
        print(checked.stdout + checked.stderr, file=sys.stderr)
        return 1
    print(f"dashboards: {len(rules)} questions are well formed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
