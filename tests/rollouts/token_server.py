"""A real local server that speaks as vLLM does, and answers from a table."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import loopback


class TokenServer(loopback.Server):
    """`answers` maps a query to the replies of its conversation; each character is a token. One in
    `broken` answers is a failure of the server."""

    def __init__(self, answers: dict[str, list[str]], broken: float = 0.0) -> None:
        super().__init__(_TokenHandler)
        self.answers, self.broken, self.chance = answers, broken, random.Random(3)
        self.failed = 0


class _TokenHandler(loopback.Quiet):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(request)
            fails = self.server.chance.random() < self.server.broken
            self.server.failed += fails
        messages = request["messages"]
        codes = self.server.answers[messages[1]["content"]]
        text = codes[min(sum(each["role"] == "assistant" for each in messages), len(codes) - 1)]
        text = text[: request.get("max_tokens", 1000)]
        reason = "length" if len(text) == request.get("max_tokens") else "stop"
        heads = [
            ">" if message["role"] == "assistant" else f"{message['role']}: "
            for message in messages
        ]
        prompt = (
            "".join(
                f"{head}{message['content']}\n"
                for head, message in zip(heads, messages, strict=True)
            )
            + ">"
        )
        tokens = [ord(letter) for letter in f"{text}\n"]
        logprobs = {"content": [{"logprob": -0.25} for _ in tokens]}
        message = {"role": "assistant", "content": text}
        choice = {
            "message": message,
            "finish_reason": reason,
            "token_ids": tokens,
            "logprobs": logprobs,
        }
        body = {"choices": [choice], "prompt_token_ids": [ord(letter) for letter in prompt]}
        data = json.dumps({"error": "out of memory"} if fails else body).encode()
        self.send_response(500 if fails else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(data)
