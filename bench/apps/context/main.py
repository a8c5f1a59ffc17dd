"""Has torch in its template, and a context on the GPU in each replica."""

import os

import torch

# Not ids of processes, which may be the same in each namespace.
IMPORT = os.urandom(8).hex()
replica = ""


def setup():
    global replica
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    replica = os.urandom(8).hex()


def run():
    return {"import": IMPORT, "replica": replica}
