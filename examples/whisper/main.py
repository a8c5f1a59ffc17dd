"""Speech to text: recordings in the project's storage, several at once."""

import os
import pathlib
from typing import Any

import av
import numpy
import torch
from transformers import pipeline

MODEL = os.environ.get("MODEL", "openai/whisper-large-v3-turbo")
STORAGE = pathlib.Path(os.environ["PERSISTENT_STORAGE"]).resolve()
RATE = 16_000

# In host memory. Runs once; all forked replicas share it.
whisper = pipeline("automatic-speech-recognition", model=MODEL, device="cpu", dtype="auto")


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    if torch.cuda.is_available():
        keep_to_share()
        whisper.model.to("cuda")
        whisper.device = torch.device("cuda")


def keep_to_share():
    """PyTorch raises an error instead of taking more memory than the replica was granted, with what CUDA takes."""
    share, total = int(os.environ["MILLRACE_GPU_MEMORY"]), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (share - 500_000_000) / total))


def run(file: "list[str]", language: Any = None):
    """Each parameter is a list with one item per call; the calls of a batch are in the same language."""
    sounds = [read(name) for name in file]
    heard = iter(listen([sound for sound in sounds if not isinstance(sound, Exception)], language[0]))
    # An item that is an exception fails only its own call.
    return [sound if isinstance(sound, Exception) else next(heard) for sound in sounds]


def read(name: str):
    """The samples of a file in any format, or an exception."""
    path = (STORAGE / name).resolve()
    if not path.is_relative_to(STORAGE):
        return ValueError(f"{name} is not in the storage")
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
    try:
        with av.open(str(path)) as sound:
            frames = [part for frame in sound.decode(audio=0) for part in resampler.resample(frame)]
    except av.error.FFmpegError as error:
        return ValueError(f"{name} cannot be read: {error.strerror}")
    except IndexError:
        return ValueError(f"{name} has no sound")
    return numpy.concatenate([part.to_ndarray()[0] for part in [*frames, *resampler.resample(None)]])


def listen(sounds: list, language):
    """The text of each recording, and from which second to which each part of it was said."""
    options = {"language": language} if language else {}
    heard = whisper(
        sounds,
        # Longer ones are heard in pieces of 30 seconds, so many at once.
        chunk_length_s=30,
        batch_size=16,
        return_timestamps=True,
        ignore_warning=True,
        generate_kwargs=options,
    )
    for each in heard:
        parts = [
            {"from": part["timestamp"][0], "to": part["timestamp"][1], "text": part["text"]} for part in each["chunks"]
        ]
        yield {"text": each["text"].strip(), "parts": parts}
