"""Sequences that a model continues together, and that join and leave between two of its steps."""

import torch
from torch.nn.functional import pad
from transformers import DynamicCache


class Batch:
    """Row i of the mask, and of each layer of the cache, is sequence i. All rows end in the same column."""

    def __init__(self, model):
        self.model = model
        self._clear()

    def _clear(self):
        self.cache = DynamicCache()
        self.mask = torch.zeros(0, 0, dtype=torch.long, device=self.model.device)

    def join(self, prompts: "list[list[int]]"):
        """Adds a row for each prompt, and has the model read them at once."""
        width = max(map(len, prompts))
        tokens = self._tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = self._tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache()
        self.model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=1
        )
        if len(self.mask) == 0:
            self.cache, self.mask = cache, mask
            return
        for layer, added in zip(self.cache.layers, cache.layers):
            layer.keys = _stacked(layer.keys, added.keys)
            layer.values = _stacked(layer.values, added.values)
        self.mask = _stacked(self.mask[:, None, :, None], mask[:, None, :, None])[:, 0, :, 0]

    def step(self, tokens: "list[int]") -> torch.Tensor:
        """Appends a token to each row; gives the logits of the next ones."""
        self.mask = pad(self.mask, (0, 1), value=1)
        return self.model(
            input_ids=self._tensor(tokens)[:, None],
            attention_mask=self.mask,
            position_ids=self.mask.sum(1, keepdim=True) - 1,
            past_key_values=self.cache,
        ).logits[:, -1]

    def keep(self, rows: "list[int]"):
        """Drops the other rows, and the columns that only they used."""
        if not rows:
            self._clear()
            return
        start = int(self.mask[rows].any(0).int().argmax())
        self.mask = self.mask[rows, start:]
        for layer in self.cache.layers:
            layer.keys = layer.keys[rows, :, start:]
            layer.values = layer.values[rows, :, start:]

    def _tensor(self, rows: list) -> torch.Tensor:
        return torch.tensor(rows, device=self.model.device)


def _stacked(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    """Both, one below the other, as wide as the wider one; the columns are the last dimension but one."""
    width = max(upper.shape[-2], lower.shape[-2])
    return torch.cat([pad(each, (0, 0, width - each.shape[-2], 0)) for each in (upper, lower)])
