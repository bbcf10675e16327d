import torch
from torch import nn

actor, critic = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
actor_updates = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_updates = torch.optim.SGD(critic.parameters(), lr=0.1)

state = torch.rand(6, 4)
value = critic(actor(state))
critic_loss = (value - 1).square().mean()
actor_loss = -value.mean()
critic_loss.backward(retain_graph=True)
critic_updates.step()
actor_loss.backward()
actor_updates.step()
