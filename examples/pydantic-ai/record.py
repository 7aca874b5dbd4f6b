"""Run the agent once and record its AG-UI events, one JSON object per line."""

import argparse
import asyncio
from pathlib import Path

from agent import DEFAULT_PROMPT, run_as_ndjson

DEFAULT_FILE = Path(__file__).with_name("recorded-run.ndjson")


async def record(prompt: str) -> list[str]:
    return [line async for line in run_as_ndjson(prompt, thread_id="demo", run_id="recorded-run")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--file", type=Path, default=DEFAULT_FILE, help="file to write")
    parser.add_argument("--prompt", default=DEFAULT_PROMPT, help="what the user asks")
    args = parser.parse_args()

    lines = asyncio.run(record(args.prompt))
    args.file.write_bytes("".join(lines).encode())
    print(f"{len(lines)} events recorded in {args.file}")


if __name__ == "__main__":
    main()
