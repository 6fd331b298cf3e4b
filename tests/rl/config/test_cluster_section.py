"""The CPUs that the config allows are those that Ray can reserve."""

from __future__ import annotations

import pytest

from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError

KEYS = ("env_cpus", "engine_cpus", "learner_cpus")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("cpus", ["1e-6", "0.0000999"])
def test_less_than_rays_unit_is_refused_before_the_run(key: str, cpus: str) -> None:
    ray = pytest.importorskip("ray")
    with pytest.raises(ValueError, match=r"cannot go beyond 0\.0001"):
        ray.remote(num_cpus=float(cpus))(test_less_than_rays_unit_is_refused_before_the_run)
    with pytest.raises(ConfigError, match=rf"cluster\.{key}=.* must be greater than or equal to 0\.0001"):
        load_config("demo", ["cluster=ray", f"cluster.{key}={cpus}"])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("cpus", [0.0001, 0.00015, 1 / 3, 64.0])
def test_ray_takes_what_the_config_takes(key: str, cpus: float) -> None:
    ray = pytest.importorskip("ray")
    cluster = load_config("demo", ["cluster=ray", f"cluster.{key}={cpus}"]).cluster
    ray.remote(num_cpus=getattr(cluster, key))(test_ray_takes_what_the_config_takes)
