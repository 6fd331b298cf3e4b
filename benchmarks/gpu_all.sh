#!/usr/bin/env bash
# Everything that one GPU can check, in at most ten minutes, without downloads: one table in Markdown.
# Needs Python 3.11 with torch; what else is missing is skipped, by name. Without a GPU, to test the script itself:
#   benchmarks/gpu_all.sh --cpu-rehearsal
# All options: benchmarks/gpu_all.sh --help. PYTHON names another interpreter.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root:$root/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
exec "$python" "$root/benchmarks/gpu_all.py" "$@"
