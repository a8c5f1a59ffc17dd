"""Prints the milliseconds that a context on the GPU takes in a process that has imported torch."""

import time

import torch

began = time.perf_counter()
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
print((time.perf_counter() - began) * 1000)
