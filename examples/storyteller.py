#!/usr/bin/env python3
"""An agent that continues its answer after a node of Threadline was killed. Python 3.9 or newer, nothing to install.

    python3 examples/storyteller.py --port 8000

    [agents.story]                            in the configuration file of Threadline
    url = "http://127.0.0.1:8000/"
    recovery = "continue"

The agent answers every question with the same fifteen sentences, word by word, in forty seconds. Each sentence is a
message. With `recovery = "continue"`, another node calls the agent again after the loss of a node, and its input has
the sentences that it has completed. The agent counts them, and begins with the next one.
"""

import argparse
import http.server
import json
import time
import uuid

STORY = """\
A question came to a balancer, which gave it to one of three nodes.
The node wrote the question into the log before it did anything else.
Then it called the agent, and the agent began to tell this story.
Every word went into the log first, and only then to the readers.
One reader sat at this node, the other two sat at its neighbours.
All of them saw the same words, in the same order, at the same time.
Each second the node said to the others that it was still alive.
But somewhere in this sentence, perhaps, someone kills it with no warning.
A dead node ends nothing, and its half sentence stays in the log.
The readers of the lost node ask the balancer for another one.
They name the last event that they have seen, and miss nothing.
The other nodes count the seconds, and after four of them one acts.
It takes back the half sentence, keeps the complete ones, and calls the agent.
The agent reads what it has said, and goes on with the next sentence.
So the story has an end, and each of its words is told once.
""".splitlines()


def told(messages):
    """Returns the number of sentences that follow the last question."""
    roles = [message.get("role") for message in messages]
    since = len(roles) - roles[::-1].index("user") if "user" in roles else 0
    return roles[since:].count("assistant")


def answer(given, pause):
    """Yields AG-UI events: each remaining sentence as a message of its own."""
    run = {"threadId": given["threadId"], "runId": given["runId"]}
    yield {"type": "RUN_STARTED", **run}
    for sentence in STORY[told(given.get("messages", [])) :]:
        message = {"messageId": str(uuid.uuid4())}
        yield {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"}
        for number, word in enumerate(sentence.split(" ")):
            time.sleep(pause)
            yield {"type": "TEXT_MESSAGE_CONTENT", **message, "delta": " " * (number > 0) + word}
        yield {"type": "TEXT_MESSAGE_END", **message}
    yield {"type": "RUN_FINISHED", **run}


class Agent(http.server.BaseHTTPRequestHandler):
    pause = 0.2

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for event in answer(given, self.pause):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        except ConnectionError:
            self.log_message("the node closed the connection")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds before each word")
    parser.add_argument("--text", action="store_true", help="print the whole answer, a sentence per line, and end")
    options = parser.parse_args()
    if options.text:
        print("\n".join(STORY))
        return
    Agent.pause = options.pause
    http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Agent).serve_forever()


if __name__ == "__main__":
    main()
