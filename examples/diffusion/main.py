"""Text to pictures, which are kept in the project's storage; the answer has the way to download them."""

import os
import pathlib
import urllib.parse

import torch
from diffusers import AutoPipelineForText2Image

MODEL = os.environ.get("MODEL", "stabilityai/stable-diffusion-xl-base-1.0")
STORAGE = pathlib.Path(os.environ["PERSISTENT_STORAGE"])
DOWNLOAD = f"/v2/projects/{os.environ['PROJECT_ID']}/volumes/default/download?file_path="

# In host memory, in half of its size if a GPU is to compute. Runs once; all forked replicas share it.
has_gpu = bool(os.environ.get("MILLRACE_GPU_MEMORY"))
painter = AutoPipelineForText2Image.from_pretrained(MODEL, torch_dtype=torch.float16 if has_gpu else torch.float32)
painter.set_progress_bar_config(disable=True)


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    painter.to("cuda" if has_gpu else "cpu")


def run(prompt: "list[str]", shape="1024x1024", seed: "list[int]" = 0, run_id=()):
    """Each parameter is a list with one item per call; the pictures of a batch have the same shape."""
    width, height = (int(pixels) for pixels in shape[0].split("x"))
    # A generator for each, so that a picture does not depend on the others of its batch.
    chances = [torch.Generator().manual_seed(each) for each in seed]
    pictures = painter(prompt=prompt, width=width, height=height, generator=chances).images
    return [kept(picture, f"pictures/{name}.png") for picture, name in zip(pictures, run_id)]


def kept(picture, name: str):
    path = STORAGE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    return {"file": name, "link": DOWNLOAD + urllib.parse.quote(name)}
