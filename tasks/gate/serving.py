"""The frame of every worker: `python serving.py SCRIPT [PARENT]`, inside the sandbox. Stands alone.

SCRIPT is a Python file, standing alone too, with a class `Server` whose `answer` turns one request into one answer.
Requests are JSON lines on stdin, one at a time; each is answered by one JSON line on the original stdout with the
request's nonce. Everything else that is printed goes to stderr. Nothing that a worker says is believed by the parent.
With the parent's pid as its last argument it ends with the parent, where no sandbox sees to that.
"""

import gc
import json
import os
import resource
import runpy
import signal
import sys

MAX_FILE_BYTES = 64 << 20
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Be killed when the parent's thread that started this process ends; end now if that is past."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main(script: str) -> None:
    """Serve requests until stdin ends."""
    answers = os.dup(1)
    requests = os.fdopen(os.dup(0), "rb")
    # What a candidate or its compiler prints goes to descriptor 1; it must not look like an answer.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = MAX_FILE_BYTES if allowed == resource.RLIM_INFINITY else min(allowed, MAX_FILE_BYTES)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    gc.disable()
    server = runpy.run_path(script)["Server"]()
    for line in requests:
        request = json.loads(line)
        answer = server.answer(request) | {"nonce": request["nonce"]}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if len(sys.argv) > 2:
        end_with_parent(int(sys.argv[2]))
    main(sys.argv[1])
