"""Stands in for vLLM, with the options of `vllm serve` that the example uses and its routes. It says what it hears."""

import argparse
import json
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def fraction(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"GPU memory utilization must be in (0, 1], got {number}.")
    return number


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vllm")
    serve = parser.add_subparsers(dest="command", required=True).add_parser("serve")
    serve.add_argument("model")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--max-model-len", type=int, default=4096)
    serve.add_argument("--gpu-memory-utilization", type=fraction, default=0.92)
    serve.add_argument("--tensor-parallel-size", type=int, default=1)
    return parser.parse_args()


OPTIONS = options()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        card = {"id": OPTIONS.model, "object": "model", "owned_by": "vllm", "max_model_len": OPTIONS.max_model_len}
        if self.path == "/health":
            self.reply(200, None)
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{**card, "created": int(time.time()), "root": OPTIONS.model}]})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path != "/v1/chat/completions":
            self.reply(404, {"detail": "Not Found"})
        elif asked.get("model", OPTIONS.model) != OPTIONS.model:
            self.refuse(404, "NotFoundError", f"The model `{asked['model']}` does not exist.")
        else:
            self.complete(asked)

    def complete(self, asked):
        words = asked["messages"][-1]["content"].split(" ")
        limit = asked.get("max_tokens") or OPTIONS.max_model_len
        if len(words) + (asked.get("max_tokens") or 0) > OPTIONS.max_model_len:
            text = f"This model's maximum context length is {OPTIONS.max_model_len} tokens."
            self.refuse(400, "BadRequestError", text)
            return
        said, reason = words[:limit], "stop" if len(words) <= limit else "length"
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": OPTIONS.model}
        if asked.get("stream"):
            self.stream({**head, "object": "chat.completion.chunk"}, said, reason)
            return
        message = {"role": "assistant", "content": " ".join(said)}
        usage = {"prompt_tokens": len(words), "completion_tokens": len(said), "total_tokens": len(words) + len(said)}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        self.reply(200, {**head, "object": "chat.completion", "choices": choices, "usage": usage})

    def stream(self, head, said, reason):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        deltas = [{"role": "assistant", "content": ""}, *({"content": f" {word}"} for word in said)]
        deltas[1]["content"] = said[0]
        for place, delta in enumerate(deltas, 1):
            choice = {"index": 0, "delta": delta, "finish_reason": reason if place == len(deltas) else None}
            self.piece(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n")
        self.piece("data: [DONE]\n\n")
        self.piece("")

    def piece(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))

    def refuse(self, status, kind, message):
        self.reply(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def reply(self, status, body):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        """Millrace records every request."""


ThreadingHTTPServer((OPTIONS.host or "0.0.0.0", OPTIONS.port), Handler).serve_forever()
