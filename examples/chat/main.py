"""Chat completions as OpenAI clients know them: give them {api_url}/v4/{project}/chat/run as their base URL."""

import time
import uuid
from typing import Optional

import model

NAME = "millrace-miller"


def run(
    messages: list,
    model: str = NAME,
    stream: bool = False,
    max_tokens: int = 60,
    seed: Optional[int] = None,
    **options,
):
    """Answers the last message, whole or word by word."""
    said = _said(messages, max_tokens, seed)
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
    if stream:
        return _chunks(head, said)
    text = "".join(said)
    answer = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    prompt_tokens = sum(len(str(message.get("content", "")).split()) for message in messages)
    used = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text.split())}
    used["total_tokens"] = sum(used.values())
    return {**head, "object": "chat.completion", "choices": [answer], "usage": used}


def _said(messages, limit, seed):
    prompt = str(messages[-1].get("content", "")) if messages else ""
    space = ""
    for word in model.words(prompt, limit, seed):
        yield space + (word if space else word.capitalize())
        space = " "
    yield "."


def _chunks(head, said):
    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for text in said:
        yield chunk({"content": text})
        time.sleep(0.02)  # As if it were thinking.
    yield chunk({}, "stop")
    yield "[DONE]"
