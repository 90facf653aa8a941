"""The scenarios that every binding runs, in both faces, on a directory and on a cluster."""

import json
from pathlib import Path

import pytest
from scenario import Place, run

LIST = Path(__file__).parents[2] / "scenarios" / "scenarios.json"
SCENARIOS = json.loads(LIST.read_text())


def of(store: str):
    named = [scenario for scenario in SCENARIOS if store in scenario["stores"]]
    assert len(named) >= 30
    return pytest.mark.parametrize("scenario", named, ids=lambda scenario: scenario["name"])


faces = pytest.mark.parametrize("face", ["blocking", "aio"])


@faces
@of("directory")
def test_scenario_holds_in_a_directory(face, scenario, tmp_path_factory):
    run(face, scenario, Place(directory=tmp_path_factory.mktemp("scenario")))


@faces
@of("cluster")
def test_scenario_holds_on_a_cluster(face, scenario, servers):
    run(face, scenario, Place(servers=servers))


@faces
def test_a_scenario_that_is_told_something_else_fails(face, tmp_path):
    wrong = {"name": "wrong", "steps": [{"do": "keyspace.append", "key": "a", "bytes": "x", "gives": 1}]}
    with pytest.raises(AssertionError, match="is told 0"):
        run(face, wrong, Place(directory=tmp_path))
