"""TRL's ``GRPOTrainer`` on the rollouts of ``benchmarks/learner.py``, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from learner_rollouts import (
    GROUP,
    PROMPT,
    Outcome,
    Rollouts,
    Stopwatch,
    action_lengths,
    make_model,
    make_rollouts,
)

_SCRIPT = str(Path(__file__).with_name("learner.py"))
_ENVIRONMENT = dict(os.environ)  # before DeepSpeed adds what launchers set


def trl(
    model: Any, rollouts: Rollouts, batch: int, threads: int, folder: str, *, gpu: bool = False
) -> Callable[[], Outcome]:
    """Each call is a ``train()`` of one optimizer step; what TRL does before and after it is not counted.

    ``gpu``: on the GPU, with bf16 autocast; else on the CPU in fp32.
    """
    os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, TrainerCallback
    from transformers.utils import logging
    from trl import GRPOConfig, GRPOTrainer

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    words = {f"w{k}": k for k in range(model.config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), pad_token="w0", eos_token="w1"
    )
    samples = rollouts.samples
    seen: dict[str, Any] = {}

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            seen["seconds"] = seen["watch"].read()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            seen.update({key: float(logs[key]) for key in ("loss", "grad_norm") if key in logs})

    def recorded(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        seen["watch"] = Stopwatch()
        return {
            "prompt_ids": [s.ids[:PROMPT].tolist() for s in samples],
            "completion_ids": [s.ids[PROMPT:].tolist() for s in samples],
            "logprobs": [s.logprobs[PROMPT:].tolist() for s in samples],
        }

    arguments = GRPOConfig(
        output_dir=folder,
        use_cpu=not gpu,
        bf16=gpu,
        learning_rate=0.0,
        max_steps=1,
        adam_beta2=0.95,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=len(samples) // batch,
        num_generations=GROUP,
        max_completion_length=max(map(len, samples)),
        loss_type="dapo",
        beta=0.0,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        disable_dropout=True,
        max_grad_norm=1.0,
        report_to=[],
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GRPOTrainer(
            model=model,
            args=arguments,
            processing_class=tokenizer,
            rollout_func=recorded,
            reward_funcs=lambda completions, **_: rollouts.rewards,
            callbacks=[Clock()],
            train_dataset=Dataset.from_dict({"prompt": [f"w{k + 2}" for k in range(len(samples) // GROUP)]}),
        )

    def step() -> Outcome:
        torch.set_num_threads(threads)  # accelerate sets its own number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.train()
        return Outcome(*seen["seconds"], seen["loss"], seen["grad_norm"])

    return step


class TRL:
    """``trl`` in a process of its own: in ours DeepSpeed has started a process group, which would cost it a
    wrapper for several processes."""

    def __init__(self, sizes: Sequence[object]) -> None:
        command = [sys.executable, _SCRIPT, "--worker", *map(str, sizes)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=_ENVIRONMENT,
        )

    def __call__(self) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("step", file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("outcome "):
                return Outcome(*json.loads(line.removeprefix("outcome ")))
        raise SystemExit(f"TRL ended: try {' '.join(map(str, self._process.args))} and say 'step'.")  # type: ignore[arg-type]

    def close(self) -> None:
        self._process.communicate()


def worker(kind: str, count: int, longest: int, vocabulary: int, batch: int, threads: int) -> None:
    """One TRL step for every line of the standard input."""
    torch.set_num_threads(threads)
    model = make_model(vocabulary)
    rollouts = make_rollouts(model, action_lengths(kind, count, longest))
    with tempfile.TemporaryDirectory() as folder:
        step = trl(model, rollouts, batch, threads, folder)
        for _ in sys.stdin:
            print("outcome", json.dumps(step()), flush=True)
