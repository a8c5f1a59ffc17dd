"""Chat with a language model: the answers to all callers grow together, by a token each per step."""

import os
import time

import millrace
import torch
from batch import Batch
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = os.environ.get("MODEL", "Qwen/Qwen3-4B-Instruct-2507")
# The most tokens of a question and its answer.
CONTEXT = 4096

# In host memory. Runs once; all forked replicas share it.
tokenizer = AutoTokenizer.from_pretrained(MODEL)
lm = AutoModelForCausalLM.from_pretrained(MODEL, dtype="auto").eval()


def setup():
    """Runs in each replica before its first call, after the fork: only here may CUDA start."""
    lm.to("cuda" if torch.cuda.is_available() else "cpu")


class Decoder:
    """Runs the calls of `chat`: they come by `add`, and `step` gives the next chunk of each."""

    capacity = 32

    def __init__(self):
        self.batch = Batch(lm)
        self.waiting: list[Answer] = []
        self.answers: list[Answer] = []  # Each has a row of the batch.
        self.endings: dict = {}

    def add(
        self,
        id: str,
        messages: list,
        model: str = MODEL,
        max_tokens: int = 512,
        temperature: float = 0.7,
        stream: bool = False,
    ):
        if not stream:
            raise ValueError('answers are streamed: send "stream": true')
        # Callers may send anything. Here an error fails its call alone; in `step` it would fail all of them.
        max_tokens, temperature = int(max_tokens), float(temperature)
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        if not 1 <= max_tokens <= CONTEXT - len(prompt):
            raise ValueError(f"{len(prompt)} tokens were sent; max_tokens must be from 1 to the rest of {CONTEXT}")
        self.waiting.append(Answer(id, model, prompt, max_tokens, temperature))

    def remove(self, id: str):
        self.endings.pop(id, None)
        self.waiting = [answer for answer in self.waiting if answer.id != id]
        self._keep([answer for answer in self.answers if answer.id != id])

    @torch.inference_mode()
    def step(self, paused):
        """The answers are short: all go on, and what slow readers have not read yet is buffered for them."""
        chunks = {id: next(ending) for id, ending in self.endings.items()}
        self.endings = {id: ending for id, ending in self.endings.items() if chunks[id] is not millrace.END}
        if self.waiting:
            # The last token of a prompt takes part in the step, like the last one of an answer.
            self.batch.join([answer.prompt[:-1] for answer in self.waiting])
            self.answers, self.waiting = self.answers + self.waiting, []
        if self.answers:
            logits = self.batch.step([answer.token for answer in self.answers]).float()
            heat = logits.new_tensor([max(answer.temperature, 1e-4) for answer in self.answers])
            tokens = torch.multinomial(torch.softmax(logits / heat[:, None], dim=-1), 1)[:, 0].tolist()
            chunks.update({answer.id: answer.take(token) for answer, token in zip(self.answers, tokens)})
            over = [answer for answer in self.answers if answer.reason]
            self.endings.update({answer.id: iter(["[DONE]", millrace.END]) for answer in over})
            self._keep([answer for answer in self.answers if not answer.reason])
        return chunks

    def _keep(self, answers: "list[Answer]"):
        if len(answers) < len(self.answers):
            self.batch.keep([row for row, answer in enumerate(self.answers) if answer in answers])
            self.answers = answers


class Answer:
    """What one caller gets, as OpenAI's clients know it."""

    def __init__(self, id, model, prompt, left, temperature):
        self.id, self.prompt, self.left, self.temperature = id, prompt, left, temperature
        self.token = prompt[-1]  # The last one, which the model has not seen yet.
        self.reason = None
        self.words = DecodeStream(skip_special_tokens=True)
        self.head = {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self.role = {"role": "assistant"}

    def take(self, token: int):
        self.token, self.left = token, self.left - 1
        self.reason = "stop" if token == tokenizer.eos_token_id else "length" if self.left == 0 else None
        text = self.words.step(tokenizer.backend_tokenizer, token) or ""
        delta, self.role = {**self.role, "content": text}, {}
        return {**self.head, "choices": [{"index": 0, "delta": delta, "finish_reason": self.reason}]}
