"""The parts of ``gpu_all.sh``, a file for each thing that they measure."""
