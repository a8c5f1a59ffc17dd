"""OpenAI's API for chats, with the standard library alone: GET /v1/models and POST /v1/chat/completions."""

import json
import os
import signal
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import model
import tools

NAME = "millrace-reader"
MAX_TOKENS = 500
MODELS = {"object": "list", "data": [{"id": NAME, "object": "model", "created": 0, "owned_by": "you"}]}


class BadRequest(Exception):
    """The request cannot be answered; its text says why."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/health":
            self.reply(200, {"status": "ok"})
        elif self.path == "/v1/models":
            self.reply(200, MODELS)
        elif self.path == f"/v1/models/{NAME}":
            self.reply(200, MODELS["data"][0])
        else:
            self.refuse(404, f"There is no {self.path}.")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self.refuse(404, f"There is no {self.path}.")
            return
        try:
            self.complete(asked_in(body))
        except BadRequest as error:
            self.refuse(400, str(error))
        except ConnectionError:
            self.close_connection = True  # The caller has left: no more has to be said.

    def complete(self, asked):
        call = called_in(asked)
        prompt = model.prompt_of(asked["messages"])
        limit = int(number_in(asked, "max_tokens", MAX_TOKENS, 1, MAX_TOKENS))
        temperature = number_in(asked, "temperature", 1.0, 0, 2)
        tokens = () if call else model.answer(prompt, limit, temperature, asked.get("seed"))
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": NAME}
        if asked.get("stream"):
            options = asked.get("stream_options") or {}
            self.stream(head, tokens, limit, call, len(prompt) if options.get("include_usage") else None)
            return
        said = list(tokens)
        called = {"tool_calls": [call]} if call else {}
        message = {"role": "assistant", "content": None if call else "".join(said).strip(), **called}
        choice = {"index": 0, "message": message, "finish_reason": reason_of(call, len(said), limit)}
        usage = usage_of(len(prompt), len(said))
        self.reply(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def stream(self, head, tokens, limit, call, prompt_tokens):
        """Sends each token as soon as it is chosen; at last what was used, if the tokens of the prompt are given."""
        if prompt_tokens is not None:
            head = {**head, "usage": None}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_delta(head, {"role": "assistant", "content": None if call else ""})
        count = 0
        for count, token in enumerate(tokens, 1):
            self.send_delta(head, {"content": token.lstrip() if count == 1 else token})
            time.sleep(0.02)  # As if it were thinking.
        for part in tools.deltas(call) if call else ():
            self.send_delta(head, part)
        self.send_delta(head, {}, reason_of(call, count, limit))
        if prompt_tokens is not None:
            self.send_chunk({**head, "usage": usage_of(prompt_tokens, count)}, [])
        self.send_piece(b"data: [DONE]\n\n")
        self.send_piece(b"")

    def send_delta(self, head, delta, reason=None):
        self.send_chunk(head, [{"index": 0, "delta": delta, "finish_reason": reason}])

    def send_chunk(self, head, choices):
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices}
        self.send_piece(f"data: {json.dumps(chunk)}\n\n".encode())

    def send_piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reply(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, status, message):
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        self.reply(status, {"error": error})

    def log_message(self, format, *args):
        """Millrace records every request."""


def called_in(asked):
    try:
        return tools.call_for(asked["messages"], asked.get("tools"), asked.get("tool_choice") or "auto")
    except (AttributeError, KeyError, TypeError):
        raise BadRequest("tools must be a list of functions, each with a name and a schema.") from None


def reason_of(call, count, limit):
    if call:
        return "tool_calls"
    return "length" if count == limit else "stop"


def usage_of(prompt_tokens, completion_tokens):
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def asked_in(body):
    try:
        asked = json.loads(body)
    except ValueError:
        raise BadRequest("The body is not JSON.") from None
    messages = asked.get("messages") if isinstance(asked, dict) else None
    if not isinstance(messages, list) or not all(has_text(message) for message in messages):
        raise BadRequest("messages must be a list of objects with a text as content.")
    return asked


def has_text(message):
    """A message whose content is text, in one piece or in parts; one that called a tool may have none."""
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    if isinstance(content, list):
        return all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content)
    return isinstance(content, str) or (content is None and "tool_calls" in message)


def number_in(asked, name, default, low, high):
    value = asked.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or not low <= value <= high:
        raise BadRequest(f"{name} must be a number from {low} to {high}.")
    return value


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
    # shutdown() waits for the loop below, which this thread is in.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
