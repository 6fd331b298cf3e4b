"""The examples for schedulers: their syntax, and their commands. They have never run on a cluster."""

from __future__ import annotations

import re
import shutil
import subprocess

import yaml

from mappa_rl.config import load_config
from paths import ROOT

FOLDER = ROOT / "docs" / "cluster"


def test_the_slurm_script_parses_and_asks_for_a_checkpoint_in_time() -> None:
    script = (FOLDER / "slurm.sh").read_text()
    subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=True)
    assert re.search(r"^#SBATCH --signal=B:TERM@(\d+)$", script, re.M)
    assert "trap 'kill -TERM $run' TERM" in script
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", FOLDER / "slurm.sh"], check=True)


def test_the_ray_job_is_one_and_its_command_is_a_valid_run() -> None:
    job = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    program, command, recipe, *overrides = job["spec"]["entrypoint"].split()
    assert (program, command) == ("mappa-rl", "train")
    config = load_config(recipe, overrides)
    assert config.cluster.name == "ray"
    offered = yaml.safe_load(yaml.safe_load(group["rayStartParams"]["resources"]))
    assert config.cluster.env_node in offered
    assert "0.0.0.0" not in (FOLDER / "kuberay.yaml").read_text()


def test_the_version_of_ray_is_the_tested_one() -> None:
    (tested,) = re.findall(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert f'rayVersion: "{tested}"' in (FOLDER / "kuberay.yaml").read_text()
