"""Chat completions as OpenAI clients know them: give them {api_url}/v4/{project}/chat/run as their base URL."""

import time
import uuid
from typing import Optional, Union

import model as miller
import tools as toolbox

NAME = "millrace-miller"


def run(
    messages: list,
    model: str = NAME,
    stream: bool = False,
    stream_options: Optional[dict] = None,
    tools: Optional[list] = None,
    tool_choice: Union[str, dict, None] = None,
    max_tokens: int = 60,
    seed: Optional[int] = None,
    **options,
):
    """Answers the last message, whole or word by word, or by a call of one of the tools."""
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
    call = toolbox.call_for(messages, tools, tool_choice)
    said = () if call else _said(messages, max_tokens, seed)
    if stream:
        wants_usage = bool((stream_options or {}).get("include_usage"))
        return _chunks(head, messages, said, call, wants_usage)
    text = "".join(said)
    called = {"tool_calls": [call]} if call else {}
    message = {"role": "assistant", "content": None if call else text, **called}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(messages, text)}


def _said(messages, limit, seed):
    prompt = toolbox.text_of(messages[-1]) if messages else ""
    space = ""
    for word in miller.words(prompt, limit, seed):
        yield space + (word if space else word.capitalize())
        space = " "
    yield "."


def _usage(messages, text):
    prompt_tokens = sum(len(toolbox.text_of(message).split()) for message in messages)
    completion_tokens = len(text.split())
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _chunks(head, messages, said, call, wants_usage):
    def chunk(choices, usage=None):
        asked = {"usage": usage} if wants_usage else {}
        return {**head, "object": "chat.completion.chunk", "choices": choices, **asked}

    def delta(part, reason=None):
        return chunk([{"index": 0, "delta": part, "finish_reason": reason}])

    yield delta({"role": "assistant", "content": None if call else ""})
    text = ""
    for part in said:
        text += part
        yield delta({"content": part})
        time.sleep(0.02)  # As if it were thinking.
    for part in toolbox.deltas(call) if call else ():
        yield delta(part)
    yield delta({}, "tool_calls" if call else "stop")
    if wants_usage:
        yield chunk([], _usage(messages, text))
    yield "[DONE]"
