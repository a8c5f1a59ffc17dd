"""A language model of one matrix, on a GPU: how often each word of the corpus follows each other one."""

import os
import pathlib

import torch

CONTEXT_BYTES = 500_000_000
WORDS = pathlib.Path(__file__).with_name("corpus.txt").read_text().lower().replace(".", " .").split()
NAMES = sorted(set(WORDS))
PLACES = {name: place for place, name in enumerate(NAMES)}


def _weights():
    counts = [[0.0] * len(NAMES) for _ in NAMES]
    for word, following in zip(WORDS, [*WORDS[1:], WORDS[0]]):
        counts[PLACES[word]][PLACES[following]] += 1
    return torch.tensor(counts)


# In host memory. Runs once; all forked replicas share it.
HOST_WEIGHTS = _weights()
weights = HOST_WEIGHTS
device = "cpu"


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    global device, weights
    if not torch.cuda.is_available():
        print("no GPU: this replica computes on the CPU")
        return
    device = "cuda"
    _keep_to_share()
    weights = HOST_WEIGHTS.to(device)
    print(f"this replica computes on {torch.cuda.get_device_name(0)}")


def run(prompt: str = "the", length: int = 20):
    """Yields words, each as soon as the model has chosen it."""
    known = [word for word in prompt.lower().split() if word in PLACES]
    place = PLACES[known[-1] if known else "the"]
    for _ in range(length):
        place = int(torch.multinomial(weights[place], 1).item())
        yield NAMES[place] + " "


def where():
    """What this replica computes on, and its share of the memory of each of its GPUs."""
    name = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    return {"device": name, "gpu_memory_bytes": int(os.environ.get("MILLRACE_GPU_MEMORY", "0")) or None}


def _keep_to_share():
    """PyTorch raises an error instead of taking more memory than the replica was granted."""
    share = int(os.environ.get("MILLRACE_GPU_MEMORY", "0"))
    total = torch.cuda.get_device_properties(0).total_memory
    if CONTEXT_BYTES < share < total:
        torch.cuda.set_per_process_memory_fraction((share - CONTEXT_BYTES) / total)
