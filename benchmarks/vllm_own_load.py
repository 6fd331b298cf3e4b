"""What vLLM's own reload costs by itself, timed inside its worker; see ``weight_sync.py``."""

from __future__ import annotations

import time
from typing import Any

from vllm.config import set_current_vllm_config
from vllm.model_executor.model_loader.reload.inplace import reload_weights

from mappa_rl.engines.vllm_worker import WorkerExtension, repack_tied_head

EXTENSION = f"{__name__}.TimedExtension"


class TimedExtension(WorkerExtension):
    """The worker's methods, and a stopwatch."""

    vllm_config: Any

    def own_load(self, update_info: dict[str, Any]) -> float:
        """Seconds that vLLM takes to reload these weights of the segment: no transport, no digest."""
        engine = self.weight_transfer_engine
        weights = list(engine.read(engine.parse_update_info(update_info)))
        with set_current_vllm_config(self.vllm_config):
            started = time.perf_counter()
            reload_weights(self.vllm_config, engine.model, iter(weights), None, is_checkpoint_format=True)
            seconds = time.perf_counter() - started
            repack_tied_head(engine.model)
        return seconds
