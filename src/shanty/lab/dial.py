"""Whether one host reaches another, tried for real."""

from __future__ import annotations

from shanty.lab.enter import Inside, python

_TCP = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
"""
# A datagram to a port that nobody listens on is answered with a refusal, if it arrives. The kernel
# sends at most one such answer per second, so the first try may stay without one.
_DATAGRAM = """
import socket, sys
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.settimeout(0.7)
link.connect((sys.argv[1], 9))
for _ in range(3):
    try:
        link.send(bytes(int(sys.argv[2])))
        link.recv(1)
    except ConnectionRefusedError:
        sys.exit(print("arrives"))
    except OSError:
        pass
print("silent")
"""


def answers(host: Inside, address: str, port: int, limit: float = 1) -> str:
    """``open``, ``refused`` or ``silent``: what a connection from ``host`` meets."""
    return python(host, _TCP, address, str(port), str(limit)).strip()


def arrives(host: Inside, address: str, size: int) -> bool:
    """True when a datagram of ``size`` bytes from ``host`` gets there (up to 2 s)."""
    return python(host, _DATAGRAM, address, str(size)).strip() == "arrives"
