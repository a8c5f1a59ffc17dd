"""Starts vLLM with the GPUs that the replica was granted, and with no more of their memory than its share."""

import os

MODEL = os.environ.get("MODEL", "Qwen/Qwen3-8B")
MAX_TOKENS = os.environ.get("MAX_MODEL_LEN", "16384")

# What CUDA takes beside the memory that vLLM counts.
CONTEXT_BYTES = 500_000_000
# Of a GPU that no other replica uses.
MOST = 0.9


def command():
    """The server's command line; `vllm serve --help` has more options."""
    yield from ("vllm", "serve", MODEL, "--host", "127.0.0.1", "--port", os.environ["PORT"])
    yield from ("--max-model-len", MAX_TOKENS)
    share = int(os.environ.get("MILLRACE_GPU_MEMORY", "0"))
    if not share:
        return
    import torch

    gpus = range(torch.cuda.device_count())
    total = min(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus)
    yield from ("--gpu-memory-utilization", f"{min(MOST, (share - CONTEXT_BYTES) / total):.3f}")
    yield from ("--tensor-parallel-size", str(len(gpus)))


# vLLM takes this process over, and so gets its signals.
words = list(command())
print(" ".join(words), flush=True)
os.execvp(words[0], words)
