"""The grader that people write next, for attacks to beat: tests and submission in two processes, one for all tests.

    python3 looping_grader.py EPISODE.json      {"code": …, "tests": […]}

This process carries calls and answers between the two, unopened. Exit status 0 if each test passed. Run it in a
sandbox only.
"""

import json
import os
import socket
import struct
import sys


def send(line, message):
    send_raw(line, json.dumps(message).encode())


def send_raw(line, body):
    line.sendall(struct.pack("!I", len(body)) + body)


def receive_raw(line):
    (size,) = struct.unpack("!I", line.recv(4, socket.MSG_WAITALL))
    return line.recv(size, socket.MSG_WAITALL)


def receive(line):
    return json.loads(receive_raw(line))


def answer(line, code):
    space = {}
    exec(code, space)
    while True:
        send(line, {"value": space["f"](*receive(line)["ask"])})


def judge(line):
    while True:
        request = receive(line)
        send(line, _test(request, line))


def _test(request, line):
    def it(*args):
        send(line, {"ask": args})
        return receive(line)["value"]

    try:
        for text in request["texts"]:
            exec(text, {"it": it})
    except BaseException:
        return {"passed": False}
    return {"passed": True}


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


def main(path):
    with open(path) as file:
        episode = json.load(file)
    grader, passed = started(judge), True
    for test in episode["tests"]:
        agent = started(answer, episode["code"])
        send(grader, {"texts": [test]})
        while "ask" in (said := receive(grader)):
            send(agent, said)
            send_raw(grader, receive_raw(agent))
        passed &= said["passed"]
    sys.exit(0 if passed else 1)


main(sys.argv[1])
