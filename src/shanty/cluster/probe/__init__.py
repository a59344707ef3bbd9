"""What a node is, found out on the node. Sent there as one text; see ``text.py``.

Runs on Python 3.8 (JetPack 5) with Python's own library only, reads, and changes nothing. A fact
that cannot be read is null or left out, never zero. Units: bytes, hertz, seconds, degrees Celsius,
Mbit/s for links.
"""
