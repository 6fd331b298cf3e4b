"""The examples for schedulers: their syntax, and their commands. They have never run on a cluster."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from mappa_rl.config import load_config
from paths import ROOT

FOLDER = ROOT / "docs" / "cluster"


FIELDS = {
    "job": {"entrypoint", "submissionMode", "shutdownAfterJobFinishes", "rayClusterSpec"},
    "cluster": {
        "rayVersion",
        "authOptions",
        "enableInTreeAutoscaling",
        "autoscalerOptions",
        "headGroupSpec",
        "workerGroupSpecs",
    },
    "head": {"rayStartParams", "template"},
    "workers": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}
"""Of the fields that ray.io/v1 has (KubeRay's CRD reference, v1.7), those that the example may use."""


def test_the_slurm_script_parses_and_asks_for_a_checkpoint_in_time() -> None:
    script = (FOLDER / "slurm.sh").read_text()
    subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=True)
    assert re.search(r"^#SBATCH --signal=B:TERM@(\d+)$", script, re.M)
    assert "trap 'kill -TERM $run' TERM" in script
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", FOLDER / "slurm.sh"], check=True)


def submitted(place: Path, *words: str, job: str = "7", answers: bool = True) -> tuple[int, list[str]]:
    """Exit status of the script, submitted as a job from ``place``, and how its commands were called."""
    said, programs = place / "said", place / ".venv" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    stand_ins = {
        "scontrol": "printf 'one\ntwo\n'",
        "srun": f"""
[[ "$*" == *"hostname"* ]] && exec echo 10.0.0.1
echo "srun cpus=$SRUN_CPUS_PER_TASK $*" >> {said}
{"sleep 30" if answers else "exit 3"}""",
        "ray": f"test -e {place}/up || {{ touch {place}/up; exit 1; }}" if answers else "exit 1",
        "mappa-rl": f"""
until (($(grep -c ^srun {said}) == 2)); do sleep 0.1; done  # the script waits for no other node
echo "run key=$OPENAI_API_KEY $*" >> {said}
for word; do [[ $word == out=* ]] && mkdir -p "${{word#out=}}" && touch "${{word#out=}}/config.yaml"; done
true""",
        "python": "echo token",
    }
    for name, text in stand_ins.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (programs / name).chmod(0o755)
    said.write_text("")
    own = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": "x", "OPENAI_API_KEY": "k"}
    process = subprocess.Popen(
        ["bash", FOLDER / "slurm.sh", *words],
        cwd=place,
        env={**own, "SLURM_CPUS_PER_TASK": "16"},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    try:
        code = process.wait(20.0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return code, said.read_text().splitlines()


@pytest.mark.parametrize("answers", [True, False])
def test_the_slurm_script_starts_ray_without_the_coachs_key_and_waits_for_the_head(
    answers: bool, tmp_path: Path
) -> None:
    """With stand-ins for Slurm's and Ray's commands, which write down how they are called."""
    code, lines = submitted(tmp_path, answers=answers)
    if not answers:
        assert code != 0
        assert len(lines) == 1, "neither other nodes nor the run start without a head"
        return
    assert code == 0
    assert any(
        line.startswith("run key=k train demo cluster=ray cluster.address=10.0.0.1:6379") for line in lines
    )
    started = [line for line in lines if line.startswith("srun")]
    assert all(line.startswith("srun cpus=16 ") for line in started)
    exported = [re.findall(r"--export=(\S+)", line) for line in started]
    assert exported == [[exported[0][0]]] * 2
    assert "ALL" not in exported[0][0]
    assert "KEY" not in exported[0][0]


@pytest.mark.parametrize("recipe", ["demo", "teams/own.yaml"])
def test_the_slurm_script_resumes_the_run_when_it_is_submitted_again(recipe: str, tmp_path: Path) -> None:
    out = f"runs/slurm-{recipe.removesuffix('.yaml').replace('/', '-')}"
    words = [run_of(submitted(tmp_path, recipe, job=job)[1]) for job in ("7", "8")]
    assert words[0] == ["train", recipe, "cluster=ray", "cluster.address=10.0.0.1:6379", f"out={out}"]
    assert words[1] == ["train", "--resume", out, "cluster.address=10.0.0.1:6379"]
    assert run_of(submitted(tmp_path, recipe, "runs/second", job="9")[1])[-1] == "out=runs/second"


def run_of(lines: list[str]) -> list[str]:
    """The words after ``mappa-rl``."""
    (line,) = (line for line in lines if line.startswith("run "))
    return line.split()[2:]


def test_the_ray_job_is_one_and_its_command_is_a_valid_run() -> None:
    job, policy = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    head, (group,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    for name, found in {"job": job["spec"], "cluster": cluster, "head": head, "workers": group}.items():
        assert found.keys() <= FIELDS[name]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    program, command, recipe, *overrides = job["spec"]["entrypoint"].split()
    assert (program, command) == ("mappa-rl", "train")
    config = load_config(recipe, overrides)
    assert config.cluster.name == "ray"
    offered = yaml.safe_load(yaml.safe_load(group["rayStartParams"]["resources"]))
    assert config.cluster.env_node in offered
    assert cluster["authOptions"] == {"mode": "token"}
    assert (job["spec"]["submissionMode"], head["template"]["spec"]["restartPolicy"]) == (
        "SidecarMode",
        "Never",
    )
    chosen = policy["spec"]["podSelector"]["matchLabels"]
    assert all(each["template"]["metadata"]["labels"] == chosen for each in (head, group))


def test_the_images_user_may_write_to_the_volume() -> None:
    """Which hides the image's own folder, and belongs to root unless the pod has a group for it."""
    job, _ = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    cluster = job["spec"]["rayClusterSpec"]
    pods = [each["template"]["spec"] for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    mounting = [pod for pod in pods if pod.get("volumes")]
    (user,) = re.findall(r"useradd --uid (\d+) .*\bmappa\b", (FOLDER / "Containerfile").read_text())
    assert mounting
    for pod in mounting:
        assert pod["securityContext"] == {"runAsUser": int(user), "fsGroup": int(user)}


def test_the_image_has_the_job_server_and_what_probes_call_and_no_history() -> None:
    image, left_out = (FOLDER / "Containerfile").read_text(), (ROOT / ".dockerignore").read_text().split()
    assert "[rl,ray-jobs]" in image
    assert re.search(r"apt-get install .*\bwget\b", image)
    assert {".git", "runs", "models", ".env"} <= set(left_out)


def test_the_version_of_ray_is_the_tested_one() -> None:
    (tested,) = re.findall(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert f'rayVersion: "{tested}"' in (FOLDER / "kuberay.yaml").read_text()
