"""The grader that people write next, for attacks to beat: tests and submission in two processes, one for all tests.

    python3 looping_grader.py EPISODE.json      {"code": …, "tests": […]}

This process carries calls and answers between the two. Exit status 0 if each test passed. Run it in a sandbox only.
"""

import json
import os
import socket
import struct
import sys


def send(line, message):
    body = json.dumps(message).encode()
    line.sendall(struct.pack("!I", len(body)) + body)


def receive(line):
    (size,) = struct.unpack("!I", line.recv(4, socket.MSG_WAITALL))
    return json.loads(line.recv(size, socket.MSG_WAITALL))


def answer(line, code):
    space = {}
    exec(code, space)
    while True:
        send(line, {"value": space["f"](*receive(line)["ask"])})


def judge(line):
    def it(*args):
        send(line, {"ask": args})
        return receive(line)["value"]

    while True:
        passed = True
        for text in receive(line)["texts"]:
            try:
                exec(text, {"it": it})
            except BaseException:
                passed = False
        send(line, {"passed": passed})


def started(serve, *args):
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        try:
            serve(theirs, *args)
        finally:
            os._exit(0)
    theirs.close()
    return ours


with open(sys.argv[1]) as file:
    episode = json.load(file)
grader, passed = started(judge), True
for test in episode["tests"]:
    agent = started(answer, episode["code"])
    send(grader, {"texts": [test]})
    while "ask" in (said := receive(grader)):
        send(agent, said)
        send(grader, receive(agent))
    passed &= said["passed"]
sys.exit(0 if passed else 1)
