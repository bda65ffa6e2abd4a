"""Knock from outside: `knock.py HOST PORT...` prints the ports that open, one a line. Only the standard library."""

import asyncio
import sys

WAIT_S = 3
AT_ONCE = 100


async def opens(host: str, port: int, gate: asyncio.Semaphore) -> bool:
    """Tell whether a connection is taken; one that is dropped or refused is not."""
    async with gate:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), WAIT_S)
        except OSError:  # a timeout, too
            return False
        writer.close()
        return True


async def main(host: str, ports: list[int]) -> None:
    """Knock at all of them, many at once."""
    gate = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(*(opens(host, port, gate) for port in ports))
    for port, is_open in zip(ports, answers, strict=True):
        if is_open:
            print(port)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sorted({*map(int, sys.argv[2:])})))
