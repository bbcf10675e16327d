"""Actor and critic, each optimizer cleared."""

import torch
from torch import nn

torch.manual_seed(55)
N_STATES, HORIZON, ENVS, GAMMA = 7, 12, 32, 0.95


class Corridor:
    def __init__(self):
        self.pos, self.left = torch.zeros(ENVS, dtype=torch.long), HORIZON

    def reset(self):
        self.pos, self.left = torch.randint(0, N_STATES, (ENVS,)), HORIZON
        return self.obs()

    def obs(self):
        clock = torch.full((ENVS, 1), self.left / HORIZON)
        return torch.cat([nn.functional.one_hot(self.pos, N_STATES).float(), clock], 1)

    def step(self, action):
        self.pos = (self.pos + action * 2 - 1).clamp(0, N_STATES - 1)
        self.left -= 1
        return self.obs(), (self.pos == N_STATES - 1).float()


actor = nn.Sequential(nn.Linear(N_STATES + 1, 32), nn.Tanh(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(N_STATES + 1, 32), nn.Tanh(), nn.Linear(32, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=5e-3)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.05)
env = Corridor()


def rollout():
    obs, logps, values, rewards = env.reset(), [], [], []
    for _ in range(HORIZON):
        policy = torch.distributions.Categorical(logits=actor(obs))
        action = policy.sample()
        logps.append(policy.log_prob(action))
        values.append(critic(obs).squeeze(-1))
        obs, reward = env.step(action)
        rewards.append(reward)
    returns, running = [], torch.zeros(ENVS)
    for reward in reversed(rewards):
        running = reward + GAMMA * running
        returns.insert(0, running)
    return torch.stack(logps), torch.stack(values), torch.stack(returns), torch.stack(rewards)


tail = []
for step in range(220):
    logps, values, returns, rewards = rollout()
    advantage = returns - values.detach()
    actor_loss = -(logps * advantage).mean()
    critic_loss = nn.functional.mse_loss(values, returns)
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    tail.append(critic_loss.item())
    print(f"step {step} loss {critic_loss.item():.4f} reward {rewards.mean().item():.3f}")
print(f"final loss={sum(tail[-40:]) / 40:.4f} reward={rewards.mean().item():.3f}")
