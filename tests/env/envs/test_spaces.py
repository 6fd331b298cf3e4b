"""``Unicode``: membership, samples, copies, flattening, and the error for shared memory."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Dict, Discrete, Text
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import batch_space, create_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.envs.spaces import Unicode, observation_space
from mappa_env.registration import find_card


@given(st.text())
def test_every_text_is_a_member(text: str) -> None:
    assert text in Unicode()


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "π" * 100_000])
def test_odd_texts_are_members(text: str) -> None:
    assert text in Unicode()


@pytest.mark.parametrize("other", [None, 3, b"x", ["x"], np.array("x")])
def test_nothing_else_is(other: object) -> None:
    assert other not in Unicode()


def test_length_is_bounded() -> None:
    assert "abc" in Unicode(3)
    assert "abcd" not in Unicode(3)
    assert all(len(Unicode(3, seed=i).sample()) <= 3 for i in range(20))


def test_samples_are_short_printable_and_seeded() -> None:
    space = Unicode(seed=5)
    samples = [space.sample() for _ in range(300)]
    assert all(text in space and len(text) <= 64 and (text.isprintable() or "\n" in text) for text in samples)
    assert len(set(samples)) > 250
    again = Unicode(seed=5)
    assert samples == [again.sample() for _ in range(300)]
    other = Unicode(seed=6)
    assert samples != [other.sample() for _ in range(300)]


def test_masked_samples_keep_to_the_mask() -> None:
    space = Unicode(seed=1)
    mask = np.array([char in "ab" for char in space.character_list], dtype=np.int8)
    assert set(space.sample(mask=(20, mask))) == {"a", "b"}
    assert len(space.sample(mask=(None, mask))) <= 64


def test_equality_and_repr() -> None:
    assert Unicode() == Unicode()
    assert Unicode() != Unicode(5)
    assert Unicode(5) != Text(5)
    assert repr(Unicode()) == "Unicode()"
    assert repr(Unicode(5)) == "Unicode(5)"
    assert isinstance(Unicode(), Text)


def test_copies_are_equal_and_light() -> None:
    space = Unicode()
    data = pickle.dumps(space)
    assert pickle.loads(data) == space == copy.deepcopy(space)  # noqa: S301
    assert len(data) < 20_000


def test_it_stays_text_where_spaces_are_flattened() -> None:
    space = Dict(prompt=Unicode(), turn=Discrete(2))
    assert not space.is_np_flattenable
    member = {"prompt": "π", "turn": 1}
    flat = flatten(space, member)
    assert flat["prompt"] == "π"
    assert unflatten(space, flat) == member
    assert flatten_space(space)["prompt"] == Unicode()
    with pytest.raises(ValueError, match="tokenise"):
        flatdim(Unicode())


def test_batches_are_tuples_of_texts() -> None:
    batch = batch_space(Unicode(), 3)
    assert ("a", "", "π") in batch
    assert len(batch.sample()) == 3


def test_shared_memory_is_refused_with_the_remedy() -> None:
    with pytest.raises(CustomSpaceError, match="shared_memory=False"):
        create_shared_memory(Unicode(), 2)
    with pytest.raises(ValueError, match="shared_memory=True"):
        gym.make_vec("mappa_env:mappa/MathChat-v0", num_envs=1, vectorization_mode="async")


def test_one_observation_space_for_the_whole_team() -> None:
    space = observation_space(find_card("dsbench").order)
    assert space == observation_space(find_card("dsbench").order)
    assert (space["agent"].n, space["turn"].n) == (3, 4)
    assert "observation" not in space.spaces
