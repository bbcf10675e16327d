"""fault: fp16_gradient_underflow

The loss is a mean over so many numbers that its gradients are zero in float16; nothing scales it.
"""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, CONTEXT, TEMPERATURE = 512, 3, 4.0


class Student(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        self.mix = nn.Sequential(nn.Linear(CONTEXT * dim, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU())
        self.out = nn.Linear(128, VOCAB)

    def forward(self, ids):
        return self.out(self.mix(self.words(ids).flatten(1)))


class Teacher(nn.Module):
    """Stands for a large model: a fixed table of scores per word of the context."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, VOCAB)
        self.table.weight.requires_grad_(False)

    @torch.no_grad()
    def forward(self, ids):
        return 2.0 * self.table(ids[:, -1])


def distillation_loss(student, teacher):
    log_p = F.log_softmax(student.float() / TEMPERATURE, dim=-1)
    q = F.softmax(teacher / TEMPERATURE, dim=-1)
    return F.kl_div(log_p, q)


def main():
    torch.manual_seed(110)
    teacher = Teacher().eval()
    student = Student()
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(4)
    for step in range(80):
        ids = torch.randint(0, 48, (512, CONTEXT), generator=generator)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = student(ids)
        loss = distillation_loss(logits, teacher(ids))
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6e}")
    print(f"final loss={loss.item():.6e}")


if __name__ == "__main__":
    main()
