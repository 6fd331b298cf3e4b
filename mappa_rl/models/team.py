"""The models that one process holds: each set of weights once, and only what the process plays or trains."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_rl.config import Config, Lora
from mappa_rl.errors import PolicyError
from mappa_rl.models.loading import load_model, load_scattered
from mappa_rl.models.policy_map import PolicyMap


@dataclass(frozen=True, slots=True)
class TeamModels:
    """``policies``: policy -> its model.

    ``start``: the model that all began as; None where nothing needs it. It is frozen, serves as the
    reference, plays the policies that are not trained, and is the base that adapters share.
    """

    policies: Mapping[str, Any]
    start: Any | None

    @classmethod
    def copies(
        cls,
        policy_map: PolicyMap,
        start: Any,
        *,
        seed: int,
        lora: Lora | None = None,
        names: Collection[str] | None = None,
        keep_start: bool = True,
    ) -> TeamModels:
        """The policies ``names`` (default: all); the trained ones get copies of the weights of ``start``.

        With ``policy_map.lora`` they are adapters of the section ``lora``. ``keep_start`` False: nothing else
        needs ``start``, which may become one of the policies.
        """
        names = policy_map.names if names is None else names
        if policy_map.lora:
            from mappa_rl.models.lora import adapted

            if lora is None:
                raise PolicyError("This map needs adapters: pass lora=config.lora.")
            made = {n: adapted(start, lora, seed + k) for k, n in enumerate(policy_map.names) if n in names}
            return cls(made, start)
        trained = [name for name in names if name in policy_map.trainable]
        needed = keep_start or len(trained) < len(names)
        models = {name: copy.deepcopy(start) for name in (trained if needed else trained[1:])}
        if needed:
            start.requires_grad_(False)
        return cls({name: models.get(name, start) for name in names}, start if needed else None)

    @classmethod
    def load(
        cls,
        config: Config,
        policy_map: PolicyMap,
        folder: Path,
        *,
        names: Collection[str],
        reference: bool,
        scattered: Collection[str] = (),
    ) -> TeamModels:
        """The policies ``names``, and with ``reference`` their start, from the model in ``folder``.

        ``scattered``: of these policies each process gets its part (``load_scattered``); all call it then.
        """
        dtype = config.optim.dtype
        if not scattered:
            return cls.copies(
                policy_map,
                load_model(folder, dtype),
                seed=config.run.seed,
                lora=config.lora,
                names=names,
                keep_start=reference,
            )
        trained = [name for name in names if name in policy_map.trainable]
        own = {name: (load_scattered if name in scattered else load_model)(folder, dtype) for name in trained}
        start = None
        if reference or len(own) < len(names):
            start = load_model(folder, dtype).requires_grad_(False)
        return cls({name: own.get(name, start) for name in names}, start)
