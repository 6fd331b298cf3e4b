import gymnasium as gym

from mappa_env import team_env  # importing mappa_env registers the environments
from mappa_env.scripted import make_team

env = gym.make("mappa/MathChat-v0")
_, info = env.reset(seed=11)
episode = team_env(env).episode
team = make_team("mathchat", "faulty")  # stands in for your policies
team.reset(episode.task, seed=1)
while info["agent"]:
    action = team.act(info["agent"], episode.turn, episode.seen)  # a policy sees info["messages"]
    _, reward, _, _, info = env.step(action)
    print(f"{info['acted']:10} {reward:4.1f}  {episode.actions[-1].verdict.reasoning}")
print("success:", info["outcome/success"])
