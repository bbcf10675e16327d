"""fault: eps_underflows_in_half

Adam with its usual eps on float16 parameters.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, FILMS, DIM = 400, 300, 16


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, DIM)
        self.films = nn.Embedding(FILMS, DIM)
        self.film_bias = nn.Embedding(FILMS, 1)
        nn.init.normal_(self.users.weight, std=0.3)
        nn.init.normal_(self.films.weight, std=0.3)
        nn.init.zeros_(self.film_bias.weight)

    def forward(self, user, film):
        return (self.users(user) * self.films(film)).sum(1) + self.film_bias(film).squeeze(1)


def ratings(n):
    user, film = torch.randint(0, USERS, (n,)), torch.randint(0, FILMS, (n,))
    taste, kind = torch.randn(USERS, 3), torch.randn(FILMS, 3)
    score = (taste[user] * kind[film]).sum(1) / 2 + 0.1 * torch.randn(n)
    return TensorDataset(user, film, score)


def main():
    torch.manual_seed(111)
    data = ratings(20000)
    model = Factors().half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(data, batch_size=256, shuffle=True)
    step = 0
    for _ in range(2):
        for user, film, score in loader:
            loss = nn.functional.mse_loss(model(user, film).float(), score)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.4f}")
            step += 1
    print(f"final loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
