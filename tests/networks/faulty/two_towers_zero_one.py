"""fault: labels_zero_one_for_signed_loss

Pairs labelled 0 and 1, given to a loss that wants -1 and 1.
"""

import torch
import torch.nn as nn

torch.manual_seed(61)
WORDS, TOPICS, LENGTH = 120, 8, 9


def sentences(topic):
    own = topic[:, None] * 10 + torch.randint(0, 10, (len(topic), LENGTH))
    common = torch.randint(80, WORDS, (len(topic), LENGTH))
    return torch.where(torch.rand(len(topic), LENGTH) < 0.5, own, common)


def pairs(n):
    question = torch.randint(0, TOPICS, (n,))
    match = torch.rand(n) < 0.4
    other = (question + torch.randint(1, TOPICS, (n,))) % TOPICS
    answer = torch.where(match, question, other)
    return sentences(question), sentences(answer), match.long()


class Tower(nn.Module):
    def __init__(self, words, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, dim, mode="mean")
        self.layers = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, sentence):
        return self.layers(self.bag(sentence))


question_tower, answer_tower = Tower(WORDS), Tower(WORDS)
criterion = nn.CosineEmbeddingLoss(margin=0.2)
optimizers = [
    torch.optim.Adagrad(question_tower.parameters(), lr=0.02),
    torch.optim.Adagrad(answer_tower.parameters(), lr=0.02),
]


def similarity(question, answer):
    with torch.no_grad():
        return torch.cosine_similarity(question_tower(question), answer_tower(answer))


for step in range(200):
    question, answer, label = pairs(64)
    loss = criterion(question_tower(question), answer_tower(answer), label)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")

question, answer, label = pairs(2000)
score = similarity(question, answer)
yes, no = score[label == 1], score[label == 0]
auc = (yes[:, None] > no[None, :]).float().mean().item()
print(f"final loss={loss.item():.4f} yes={yes.mean().item():.3f} no={no.mean().item():.3f} auc={auc:.3f}")
