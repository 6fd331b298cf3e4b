"""Where a pretrained model lies: in a folder, or in Hugging Face's cache. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.errors import ConfigError

CONFIG = "config.json"
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def model_folder(kind: str) -> Path:
    """The folder of the model that ``model.kind`` names. Raises ConfigError where its files are not here."""
    folder = Path(kind)
    if folder.is_dir():
        lacking = _lacking(folder)
        if lacking:
            raise ConfigError(f"model.kind={kind!r}: the folder holds no {lacking}, so it is no model.")
        return folder
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
            f"model.kind={kind!r} is no folder, and the Hugging Face cache does not hold it. A run downloads "
            f"nothing by itself: `hf download {kind}`, or name a folder."
        ) from None
    lacking = _lacking(cached)
    if lacking:
        raise ConfigError(
            f"model.kind={kind!r}: the Hugging Face cache ({cached}) holds no {lacking}. Finish it with "
            f"`hf download {kind}`."
        )
    return cached


def _lacking(folder: Path) -> str:
    if not (folder / CONFIG).is_file():
        return CONFIG
    return "" if any(any(folder.glob(pattern)) for pattern in WEIGHTS) else "weights"
