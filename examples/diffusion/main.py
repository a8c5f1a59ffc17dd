"""Text to pictures, which are kept in the project's storage; the answer has the way to download them."""

import os
import pathlib
import secrets
import urllib.parse
from typing import Any

import torch
from diffusers import AutoPipelineForText2Image

MODEL = os.environ.get("MODEL", "stabilityai/stable-diffusion-xl-base-1.0")
STORAGE = pathlib.Path(os.environ["PERSISTENT_STORAGE"])
DOWNLOAD = f"/v2/projects/{os.environ['PROJECT_ID']}/volumes/default/download?file_path="
MOST_PIXELS = 2048

# In host memory. Runs once; all forked replicas share it.
painter = AutoPipelineForText2Image.from_pretrained(MODEL, dtype=torch.float16)
painter.set_progress_bar_config(disable=True)


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    if torch.cuda.is_available():
        keep_to_share()
        painter.to("cuda")
    else:
        painter.to("cpu", torch.float32)


def keep_to_share():
    """PyTorch raises an error instead of taking more memory than the replica was granted, with what CUDA takes."""
    share, total = int(os.environ["MILLRACE_GPU_MEMORY"]), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (share - 500_000_000) / total))


def run(prompt: "list[str]", run_id: "list[str]", shape="1024x1024", seed: Any = None):
    """Each parameter is a list with one item per call; the pictures of a batch have the same shape."""
    width, height = (int(pixels) for pixels in shape[0].split("x"))
    if max(width, height) > MOST_PIXELS:
        raise ValueError(f"a picture has at most {MOST_PIXELS}x{MOST_PIXELS} pixels")
    # A generator each, so that no picture depends on the others of its batch.
    seeds = [secrets.randbits(32) if each is None else each for each in seed]
    chances = [torch.Generator().manual_seed(each) for each in seeds]
    pictures = painter(prompt=prompt, width=width, height=height, generator=chances).images
    names = [f"pictures/{each}.png" for each in run_id]
    for picture, name in zip(pictures, names):
        (STORAGE / name).parent.mkdir(parents=True, exist_ok=True)
        picture.save(STORAGE / name)
    return [{"file": name, "link": link(name), "seed": each} for name, each in zip(names, seeds)]


def link(name: str):
    """Where the management API gives a link that downloads the file, without a token, for an hour."""
    return DOWNLOAD + urllib.parse.quote(name)
