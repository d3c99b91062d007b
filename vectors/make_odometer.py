"""What becomes of requests to `odometer`: vectors/odometer/*.toml."""
from packet import *

PORT, NUMBER = 7707, 0x0102030405060708


def request(op, number=0, **head):
    head.setdefault("body_bytes", 8)
    return header(op, **head) + struct.pack(">Q", number)


def reply(op, number):
    return header(op | 0x80, 8) + struct.pack(">Q", number)


class File:
    def __init__(self, name, lease):
        self.name, self.lease, self.vectors = name, lease, []

    def add(self, what, payload, fastpath, counts=None, answer=None, host="reply", **how):
        head = headers(payload, dport=PORT, **how)
        lines = ["", "[[vector]]", f'what = "{what}"', parts("headers", head), hexes("request", payload)]
        lines += [f'fastpath = "{fastpath}"', f'host = "{host}"']
        lines += [f'counts = "{counts}"'] if counts else []
        lines += [parts("reply_headers", turned(head, answer))] if fastpath == "reply" else []
        lines += [hexes("reply", answer)] if answer else []
        self.vectors.append("\n".join(lines))

    def text(self):
        state = f'[state]\nlease = "{self.lease}"\nnumber = {NUMBER}\n\n[endpoint]\nmac = "{OWN_MAC.hex()}"\n'
        state += f'addresses = ["{OWN4}", "{OWN6}"]\nbroadcast = "10.0.0.255"\n'
        return "# Written by vectors/make.py.\n\n" + state + "\n".join(self.vectors) + "\n"


def files():
    valid, over = File("leased", "valid"), File("lease-over", "over")
    for v6 in (False, True):
        valid.add(f"read, {6 if v6 else 4}", request(1), "reply", "reads", reply(1, NUMBER), v6=v6)
    over.add("read without a lease", request(1), "forward", "forwarded", reply(1, NUMBER))
    for file in (valid, over):
        file.add("add", request(2, 5), "forward", "forwarded", reply(2, NUMBER + 5))
        bad = {"read with a number": request(1, 1), "no such operation": request(3), "a sum too large": request(2, 2**64 - 1),
               "a length too short": request(1, body_bytes=7), "a status": request(1, status=1), "cut": request(1)[:23]}
        for what, payload in bad.items():
            file.add(what, payload, "forward", "forwarded", refusal(payload, BAD_REQUEST))
        other = request(1, version=2)
        file.add("another version", other, "forward", "forwarded", refusal(other, UNSUPPORTED))
        file.add("a reply", reply(1, 7), "drop reply_bit", host="drop reply_bit")
        for payload in (b"", request(1)[:15], request(1, magic=0x4C54)):
            file.add(f"{len(payload)} bytes, not native", payload, "drop not_a_request", host="drop not_a_request")
    return [valid, over]
