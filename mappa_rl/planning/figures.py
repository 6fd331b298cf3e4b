"""The numbers that a plan rests on: each with its unit, its meaning and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mappa_env.errors import nearest
from mappa_rl.errors import ConfigError
from mappa_rl.planning.numbers import check_range


@dataclass(frozen=True, slots=True)
class Figure:
    """``source``: a data sheet, a measurement, or that it is assumed."""

    key: str
    value: float
    unit: str
    meaning: str
    source: str


RANGE = (1e-12, 1e24)
"""What a figure may be, in its own unit."""
FRACTIONS = ("of the peak", "of the bandwidth")
"""Units of figures that are at most 1."""
H100 = "NVIDIA's data sheet of the H100 SXM; other GPUs: --assume"
ASSUMED = "assumed"
HARDWARE = (
    Figure("gpu_flops", 989e12, "FLOP/s", "a GPU's peak in bf16, dense", H100),
    Figure("gpu_bandwidth", 3.35e12, "B/s", "a GPU's memory", H100),
    Figure("link_bandwidth", 450e9, "B/s", "between the GPUs of a node, one way", H100),
    Figure("network_bandwidth", 50e9, "B/s", "of a node, one way", f"{ASSUMED}: one port of 400 Gbit/s"),
    Figure(
        "host_bandwidth", 25e9, "B/s", "between a GPU and main memory", f"{ASSUMED}: PCIe 5, half its peak"
    ),
    Figure(
        "learn_utilisation",
        0.3,
        "of the peak",
        "the learner's products",
        f"{ASSUMED}: arXiv 2104.04473 reports 0.44 to 0.52 for large models on A100, with larger batches",
    ),
    Figure("prefill_utilisation", 0.4, "of the peak", "an engine that reads prompts", ASSUMED),
    Figure("decode_utilisation", 0.6, "of the bandwidth", "an engine that decodes", ASSUMED),
    Figure("pass_overhead", 0.003, "s", "an engine's pass, beside the GPU's work", f"{ASSUMED}, for vllm"),
    Figure("hf_pass_overhead", 0.03, "s", "the same of the hf engine", ASSUMED),
    Figure("split_overhead", 20e-6, "s", "of a layer's pass split over GPUs (tensor_parallel)", ASSUMED),
    Figure("engine_memory", 4e9, "B", "of an engine, beside weights and cache, a GPU", ASSUMED),
    Figure("learner_memory", 3e9, "B", "of a learner's GPU, for CUDA", f"{ASSUMED}: 1 to 3 GB"),
)
"""What machines can do. None of it was measured by this project, which has run on one GPU only."""


def found_figures(assumed: Mapping[str, float], *groups: Iterable[Figure]) -> dict[str, Figure]:
    """The figures of all groups by key, later groups first; ``assumed``: values that the user states.

    Raises ConfigError for a key that no group has, and for a value out of range.
    """
    found = {figure.key: figure for group in groups for figure in group}
    for key, value in assumed.items():
        if key not in found:
            raise ConfigError(
                f"--assume {key}={value:g}: there is no such figure.{nearest(key, found)} Figures: "
                f"{', '.join(found)}."
            )
        check_range(f"--assume {key}=", value, RANGE[0], 1 if found[key].unit in FRACTIONS else RANGE[1])
        found[key] = replace(found[key], value=value, source="given with --assume")
    return found
