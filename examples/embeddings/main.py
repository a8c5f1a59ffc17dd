"""Embeddings as OpenAI's clients know them. Calls that wait together are embedded together."""

import base64
import os

import torch
from sentence_transformers import SentenceTransformer

# The first is the default; callers choose one by `model`.
NAMES = os.environ.get("MODELS", "BAAI/bge-small-en-v1.5,BAAI/bge-m3").split(",")

# In host memory. Runs once; all forked replicas share it.
MODELS = {name: SentenceTransformer(name, device="cpu") for name in NAMES}


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    if torch.cuda.is_available():
        keep_to_share()
        for model in MODELS.values():
            model.to("cuda")


def keep_to_share():
    """PyTorch raises an error instead of taking more memory than the replica was granted, with what CUDA takes."""
    share, total = int(os.environ["MILLRACE_GPU_MEMORY"]), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (share - 500_000_000) / total))


def embed(input: list, model=NAMES[0], encoding_format="float"):
    """Each parameter is a list with one item per call; the calls of a batch ask for the same model."""
    name = model[0]
    if name not in MODELS:
        error = ValueError(f"there is no model {name}; there are {', '.join(NAMES)}")
        return [error for _ in input]
    calls = [[texts] if isinstance(texts, str) else texts for texts in input]
    # All texts of all calls at once.
    vectors = iter(MODELS[name].encode([text for texts in calls for text in texts], batch_size=256))
    return [answer(name, [shown(next(vectors), shape) for _ in texts]) for texts, shape in zip(calls, encoding_format)]


def shown(vector, encoding_format: str):
    if encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.tolist()


def answer(name: str, vectors: list):
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"object": "list", "model": name, "data": data}
