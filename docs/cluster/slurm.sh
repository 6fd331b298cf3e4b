#!/usr/bin/env bash
#SBATCH --job-name=mappa
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@60
# A Ray cluster on the job's nodes, and a run on it. Checked for its syntax; it has never run on a cluster.
# The folder that you submit from, and the virtual environment in .venv, must be on a file system that all nodes see.
#   sbatch slurm.sh [RECIPE [RUN]]
set -euo pipefail

recipe=${1:-demo}
name=${recipe%.yaml}
# Another job of the same recipe resumes the same run. A second run of it needs a folder of its own.
out=${2:-runs/slurm-${name//\//-}}
export PATH="$PWD/.venv/bin:$PATH"
# Only processes with this token can talk to the cluster.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN
# Since Slurm 22.05 srun no longer takes it from sbatch.
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
# Only these variables reach Ray, and with it the nodes that run agents' code: the coach's key does not.
shared=PATH,HOME,USER,LANG,TMPDIR,RAY_AUTH_MODE,RAY_AUTH_TOKEN

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" --export="$shared" hostname --ip-address | awk '{print $1}')
port=6379

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap --export="$shared" \
  ray start --head --node-ip-address="$address" --port=$port --include-dashboard=false \
  --num-cpus="$SLURM_CPUS_PER_TASK" --block &
head_task=$!
until timeout 10 ray status --address "$address:$port" > /dev/null 2>&1; do
  kill -0 $head_task  # else it has not started, and its lines above say why
  sleep 1
done
if ((${#nodes[@]} > 1)); then  # the run waits for them, at most cluster.placement_s
  srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --exclude="$head" --overlap --export="$shared" \
    ray start --address="$address:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi

# SIGTERM, a minute before the job's end, reaches the run, which saves a checkpoint. Submit again to resume it.
words=("$recipe" cluster=ray "cluster.address=$address:$port" "out=$out")
if [[ -f $out/config.yaml ]]; then words=(--resume "$out" "cluster.address=$address:$port"); fi
mappa-rl train "${words[@]}" &
run=$!
trap 'kill -TERM $run' TERM
wait $run || wait $run
