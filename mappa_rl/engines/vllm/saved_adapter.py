"""An adapter on its way to vLLM, which reads adapters from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from mappa_rl.distributed import gathered
from mappa_rl.engines.weights.digest import digest
from mappa_rl.errors import EngineError
from mappa_rl.models.lora import is_adapted, save_adapter


@dataclass(frozen=True, slots=True)
class SavedAdapter:
    """An adapter in PEFT's format in ``folder``, with the ``digests`` of its tensors and their ``bytes``."""

    folder: Path
    digests: dict[str, str]
    bytes: int

    @classmethod
    def of(cls, source: nn.Module | Mapping[str, Tensor], folder: Path) -> SavedAdapter:
        """Write the adapter of a module from ``lora.adapted``. Raises ``EngineError`` for anything else."""
        if not isinstance(source, nn.Module) or not is_adapted(source):
            raise EngineError("An adapter engine needs the adapted module itself; pass policy.model.")
        with gathered(source):
            weights = save_adapter(source, folder)
        digests = {name: digest(tensor) for name, tensor in weights.items()}
        return cls(folder, digests, sum(tensor.nbytes for tensor in weights.values()))
