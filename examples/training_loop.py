"""A training loop of your own: REINFORCE on how often to act as the expert (examples/training_loop.py)."""

import gymnasium as gym
import numpy as np

from mappa_env import team_env
from mappa_env.scripted import make_team

env = gym.make("mappa/MathChat-v0", sandbox="calculator")
episode, rng = team_env(env).episode, np.random.default_rng(0)
teams = [make_team("mathchat", "faulty"), make_team("mathchat", "expert")]  # the two choices of each action
weight, baseline = 0.0, 0.0  # all that is learned: the log odds of the expert
for number in range(40):
    _, info = env.reset(seed=number)
    for team in teams:
        team.reset(episode.task, seed=number)
    chosen = []
    while info["agent"]:
        chosen.append(int(rng.random() < 1 / (1 + np.exp(-weight))))
        text = teams[chosen[-1]].act(info["agent"], episode.turn, episode.actions)
        _, _, _, _, info = env.step(text)
    for choice, (reward, valid) in zip(chosen, episode.rewards, strict=True):
        if valid:  # an action without a valid reward is never learned from
            weight += 0.1 * (reward - baseline) * (choice - 1 / (1 + np.exp(-weight)))
            baseline += 0.05 * (reward - baseline)
print(f"acts as the expert with probability {1 / (1 + np.exp(-weight)):.2f}")
