# Every program of the simulated LSF: asks mbatchd.py over its socket, and prints the answer.
import json
import os
import socket
import sys
import time


def ask(folder, request):
    """The daemon's answer, or the message of LSF's programs while there is none."""
    tries = int(os.environ.get("LSB_NTRIES", "1000000"))
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.path.join(folder, "socket"))
                connection.sendall(json.dumps(request).encode())
                connection.shutdown(socket.SHUT_WR)
                with connection.makefile("rb") as answer:
                    return json.loads(answer.read())
        except OSError:
            print("Cannot connect to LSF. Please wait ...", file=sys.stderr, flush=True)
            tries -= 1
            if tries <= 0:
                print("batch daemon not responding ... still trying", file=sys.stderr)
                sys.exit(255)
            time.sleep(1)


def blaunch(words):
    """Runs a command on a host of the job: there is only one."""
    if words[:1] == ["-z"]:
        words = words[2:]
    elif words and words[0] in (os.environ.get("LSB_HOSTS") or "").split():
        words = words[1:]
    if len(words) == 1:
        os.execvp("/bin/sh", ["sh", "-c", words[0]])
    os.execvp(words[0], words)


def main():
    """Repeat the request as often as the daemon wants, like LSF while it is down."""
    folder = os.environ.get("LSF_DOUBLE_DIR") or globals().get("FOLDER") or os.path.dirname(os.path.abspath(__file__))
    program, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    if program == "blaunch":
        blaunch(words)
    request = {"program": program, "words": words, "cwd": os.getcwd(), "environment": dict(os.environ)}
    tries = int(os.environ.get("LSB_NTRIES", "1000000"))
    while True:
        answer = ask(folder, request)
        if answer["status"] == "script":
            request["script"] = sys.stdin.read()
            continue
        sys.stdout.write(answer["stdout"])
        sys.stderr.write(answer["stderr"])
        sys.stdout.flush()
        sys.stderr.flush()
        tries -= 1
        if answer["status"] is not None or tries <= 0:
            sys.exit(255 if answer["status"] is None else answer["status"])
        time.sleep(1)


main()
