# SPDX-License-Identifier: Apache-2.0
"""Random, mutated and truncated frames around a payload, for the tests that compare the NIC with the XDP programs."""

import ipaddress

from lineside_rtl import folded_sum

V4, V6 = ["10.0.0.2", "192.168.7.2"], ["fd00::2", "fe80::2"]
BROADCASTS = ["10.0.0.255", "255.255.255.255"]


def roots_body(txids, count=None) -> bytes:
    """Body of a `roots` request for these TXIDs, which may say another count."""
    head = bytes(36) + (len(txids) if count is None else count).to_bytes(4, "big")
    return head + b"".join(txid + bytes(40) for txid in txids)


def roots_header(body: bytes, request_id: bytes = b"\x01\x23\x45\x67\x89\xab\xcd\xef") -> bytes:
    return b"LS\x01\x02\0\0" + len(body).to_bytes(2, "big") + request_id


class _Usual:
    """Chance that never makes anything unusual."""

    def __init__(self, chance):
        self.choice, self.randbytes = lambda items: items[0], chance.randbytes

    def random(self) -> float:
        return 0.5


class FrameMaker:
    """Makes frames to `port` from a seeded source of chance. With `checks`, most UDP checksums are right."""

    def __init__(self, chance, mac: bytes, port: int, checks=False, usual=("10.0.0.9", "fd00::9")):
        self.random, self.mac, self.port, self.checks, self.usual = chance, mac, port, checks, usual

    def address(self, v6: bool) -> bytes:
        odd4 = ["0.0.0.0", "127.0.0.1", "224.0.0.1", "239.9.9.9", "255.255.255.255", "10.0.0.255", *V4]
        odd6 = ["::", "::1", "ff02::1", *V6]
        text = self.random.choice(odd6 if v6 else odd4) if self.random.random() < 0.12 else self.usual[v6]
        return ipaddress.ip_address(text).packed

    def udp_check(self, pseudo: bytes, udp: bytes, payload: bytes) -> bytes:
        kind = self.random.random()
        if not self.checks or kind < 0.03:
            return self.random.randbytes(2)
        if kind < 0.05:
            return bytes(2)
        if kind < 0.1:
            return folded_sum(pseudo).to_bytes(2, "big")
        total = 0xFFFF - folded_sum(pseudo + udp + payload + bytes(len(payload) % 2))
        return (total or 0xFFFF).to_bytes(2, "big")

    def plain(self, payload: bytes) -> bytes:
        """Returns an intact IPv4 frame from the usual source."""
        maker = FrameMaker(_Usual(self.random), self.mac, self.port, True, self.usual)
        return maker.frame(payload)

    def frame(self, payload: bytes) -> bytes:
        chance = self.random
        v6 = chance.random() < 0.4
        own = chance.choice(V6 if v6 else V4) if chance.random() < 0.95 else ("fd00::3" if v6 else "10.0.0.3")
        source, own = self.address(v6), ipaddress.ip_address(own).packed
        mac = self.mac if chance.random() < 0.95 else chance.randbytes(6)
        from_mac = bytes.fromhex("0200000000aa") if chance.random() < 0.95 else chance.randbytes(6)
        tag = chance.choice([b"\x81\x00", b"\x88\xa8", b"\x91\x00"] if chance.random() < 0.4 else [b""])
        if tag:
            tag += chance.randbytes(2)
        port = chance.choice([0, 7700, 7701, 7703, 7705, 7706]) if chance.random() < 0.1 else 40000
        to_port = 53 if chance.random() < 0.04 else self.port
        udp_bytes = 8 + len(payload)
        udp = port.to_bytes(2, "big") + to_port.to_bytes(2, "big") + udp_bytes.to_bytes(2, "big")
        pseudo = source + own + udp_bytes.to_bytes(2, "big") + b"\0\x11"
        udp += self.udp_check(pseudo, udp, payload)
        ttl = chance.choice([64, 64, 64, 0, 1, 2, 63, 65, 128, 255])
        if v6:
            ip = b"\x60" + chance.randbytes(3) + udp_bytes.to_bytes(2, "big") + bytes([17, ttl]) + source + own
        else:
            ip = b"\x45" + chance.randbytes(1) + (20 + udp_bytes).to_bytes(2, "big") + chance.randbytes(2)
            ip += chance.choice([b"\x40\0", b"\0\0", b"\x20\0", b"\0\1"] if chance.random() < 0.1 else [b"\x40\0"])
            ip += bytes([ttl, 17]) + chance.randbytes(2) + source + own
        frame = mac + from_mac + tag + (b"\x86\xdd" if v6 else b"\x08\x00") + ip + udp + payload
        if chance.random() < 0.3:
            frame += chance.randbytes(chance.randrange(1, 40))
        if chance.random() < 0.25:
            changed = bytearray(frame)
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(min(len(changed), chance.choice([60, 80, len(changed)])))
                changed[at] = chance.choice([chance.getrandbits(8), changed[at] ^ 1 << chance.randrange(8)])
            frame = bytes(changed)
        if chance.random() < 0.1:
            frame = frame[: chance.randrange(1, len(frame))]
        return frame
