"""Serve the agent as an AG-UI endpoint, for Threadline or any other AG-UI client.

Each POST is a run: the request is a RunAgentInput, the response is the run's AG-UI events.
"""

import argparse

import uvicorn
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import agent as trips

EXAMPLES = """\
examples:
  python serve.py                                         serve on http://127.0.0.1:8000/
  threadline dev --agent trips=http://127.0.0.1:8000/     let Threadline run it, in another terminal
"""


async def run(request: Request) -> Response:
    return await AGUIAdapter.dispatch_request(request, agent=trips.agent, deps=StateDeps(trips.Trip()))


app = Starlette(routes=[Route("/", run, methods=["POST"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=20, metavar="MS", help="time per token (default: %(default)s)")
    args = parser.parse_args()

    trips.seconds_per_token = args.pace / 1000
    # A run may take minutes. A shutdown interrupts it: the client of the agent detects and reports that.
    uvicorn.run(app, host=args.host, port=args.port, timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
