"""A run of real checkpoints: a small transformer learns a sentence, the same way at each try.

As a program it trains into the directory that it is given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import dsckpt

SENTENCE = "the quick brown fox jumps over the lazy dog and runs back home. "
STEPS, EVERY = 200, 5
_WIDTH, _LAYERS, _HEADS = 32, 2, 4


class Model(torch.nn.Module):
    """Predicts the next letter. The output layer is the embedding; the mask never changes."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        letters, length = len(set(SENTENCE)), len(SENTENCE)
        self.embedding = torch.nn.Embedding(letters, _WIDTH)
        self.positions = torch.nn.Embedding(length, _WIDTH)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                _WIDTH, _HEADS, 4 * _WIDTH, dropout=0.0, batch_first=True
            )
            for _ in range(_LAYERS)
        )
        self.norm = torch.nn.LayerNorm(_WIDTH)
        self.head = torch.nn.Linear(_WIDTH, letters, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())
        torch.nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        found: torch.Tensor = self.embedding(tokens) + self.positions.weight[:length]
        for layer in self.layers:
            found = layer(found, src_mask=self.mask[:length, :length])
        logits: torch.Tensor = self.head(self.norm(found))
        return logits


def tokens() -> torch.Tensor:
    """The sentence, as a batch of one."""
    letters = sorted(set(SENTENCE))
    return torch.tensor([[letters.index(letter) for letter in SENTENCE]])


def loss_of(model: torch.nn.Module) -> torch.Tensor:
    """How badly the model predicts the sentence: nats a letter."""
    sentence = tokens()
    logits = model(sentence[:, :-1])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), sentence[0, 1:])


def train(directory: Path) -> list[float]:
    """Trains and saves every few steps. Returns the loss of each checkpoint."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # So that sums have one order.
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    try:
        with dsckpt.Run(directory) as run:
            for step in range(1, STEPS + 1):
                loss = loss_of(model)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                if step % EVERY == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    losses.append(loss.item())
                    run.save(step, state, attributes={"loss": losses[-1]}, statistics=True)
    finally:
        torch.set_num_threads(threads)
    return losses


if __name__ == "__main__":
    print(train(Path(sys.argv[1]))[-1])
