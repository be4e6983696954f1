"""Writes Chakra execution traces, byte by byte as the protocol-buffer encoding has them."""

METADATA, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLL = range(1, 8)
ALL_REDUCE, REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 1, 2, 5, 6, 7, 9


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A varint field, or a field of bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, bool):
        stored = field(27, int(value))
    elif isinstance(value, str):
        stored = field(29, value)
    else:
        stored = field(9, value)  # int64
    return field(1, name) + stored


def node(number, kind, name="", ctrl=(), data=(), micros=0, **attributes):
    out = field(1, number) + field(2, name or f"n{number}") + field(3, kind)
    for tag, deps in ((4, ctrl), (5, data)):
        if deps:
            out += field(tag, b"".join(varint(d) for d in deps))
    if micros:
        out += field(7, micros)
    for key, value in attributes.items():
        out += field(10, attribute(key, value))
    return out


def trace(nodes):
    messages = [field(1, "0.0.4"), *nodes]
    return b"".join(varint(len(m)) + m for m in messages)


def write(folder, ranks, prefix="t"):
    """A list of nodes for each rank. Returns the prefix of the files."""
    for rank, nodes in enumerate(ranks):
        (folder / f"{prefix}.{rank}.et").write_bytes(trace(nodes))
    return folder / prefix
