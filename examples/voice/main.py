"""Somebody to talk to over a WebSocket: it hears what you say, thinks of an answer, and speaks it."""

import asyncio
import contextlib
import http
import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch
from transformers import pipeline
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

RATE = 16_000  # Samples per second of what is heard, each of two bytes.
LOUD = 500  # A frame with less power than this is silence.
PAUSE, LONGEST = 0.7, 30.0  # Seconds of silence that end what you say, and the most that you say at once.
SYSTEM = {"role": "system", "content": "You talk with somebody. Answer in one or two short sentences."}

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    # PyTorch raises an error instead of taking more memory than the replica was granted, with what CUDA takes.
    share, total = int(os.environ["MILLRACE_GPU_MEMORY"]), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (share - 500_000_000) / total))
ears = pipeline("automatic-speech-recognition", model=os.environ.get("EARS", "openai/whisper-base"), device=device)
mind = pipeline("text-generation", model=os.environ.get("MIND", "Qwen/Qwen2.5-1.5B-Instruct"), device=device)
voice = pipeline("text-to-speech", model=os.environ.get("VOICE", "facebook/mms-tts-eng"), device=device)
# One thing after the other; meanwhile, all callers are heard.
worker = ThreadPoolExecutor(1)


async def work(task, *arguments, **options):
    return await asyncio.get_running_loop().run_in_executor(worker, lambda: task(*arguments, **options))


async def talk(socket):
    """One caller, from the handshake to the close frame."""
    said = []
    with contextlib.suppress(ConnectionClosed):
        async for utterance in utterances(socket):
            words = utterance if isinstance(utterance, str) else (await work(ears, utterance))["text"].strip()
            await socket.send(json.dumps({"you": words}))
            said = [*said[-20:], {"role": "user", "content": words}]
            answer = (await work(mind, [SYSTEM, *said], max_new_tokens=100))[0]["generated_text"][-1]
            await socket.send(json.dumps({"answer": answer["content"]}))
            said.append(answer)
            # Sentence by sentence, so that the first is heard while the next is made.
            for sentence in re.findall(r"[^.!?]*\w[^.!?]*[.!?]*", answer["content"]):
                spoken = await work(voice, sentence)
                await socket.send(json.dumps({"rate": spoken["sampling_rate"], "text": sentence}))
                await socket.send((numpy.clip(spoken["audio"].ravel(), -1, 1) * 32767).astype("<i2").tobytes())


async def utterances(socket):
    """What the caller says from one pause to the next, as samples from -1 to 1, or types, as text."""
    sound, is_speech, silence = numpy.zeros(0, "<i2"), False, 0.0
    async for frame in socket:
        if isinstance(frame, str):
            yield frame
            continue
        samples = numpy.frombuffer(frame, "<i2")
        is_loud = samples.size > 0 and numpy.sqrt(numpy.mean(samples.astype(float) ** 2)) > LOUD
        silence = 0.0 if is_loud else silence + samples.size / RATE
        is_speech = is_speech or is_loud
        # Of the silence before the first word, a moment is kept.
        sound = numpy.concatenate([sound if is_speech else sound[-RATE // 4 :], samples])
        if is_speech and (silence > PAUSE or sound.size > LONGEST * RATE):
            yield sound.astype("float32") / 32768
            sound, is_speech, silence = sound[:0], False, 0.0


def answer_check(connection, request):
    """The health check is plain HTTP; any other path is somebody who wants to talk."""
    return connection.respond(http.HTTPStatus.OK, "ok\n") if request.path == "/health" else None


async def main():
    async with serve(talk, "127.0.0.1", int(os.environ["PORT"]), process_request=answer_check) as server:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
        await server.wait_closed()


asyncio.run(main())
