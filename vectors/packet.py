"""Frames and native headers, by hand from docs/wire-formats.md and the RFCs. Shares no code with Lineside."""
import ipaddress
import struct

OWN_MAC, PEER_MAC = bytes.fromhex("020000000002"), bytes.fromhex("0200000000aa")
OWN4, PEER4, OTHER4 = "10.0.0.2", "10.0.0.9", "10.0.0.3"
OWN6, PEER6 = "fd00::2", "fd00::9"
SPV, TRANSFER, COLUMN, CLIENT = 7701, 7702, 7703, 40000
BAD_REQUEST, UNSUPPORTED, TOO_LONG, NOT_KEPT, NO_COMMITMENT = 2, 4, 14, 15, 16


# ---- checksums (RFC 1071, RFC 1624 equation 3) ----

def fold(total):
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def words(data):
    data += b"\0" * (len(data) % 2)
    return sum(struct.unpack(f">{len(data) // 2}H", data))


def udp_checksum(source, destination, udp):
    pseudo = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    pseudo += struct.pack(">HH", 17, len(udp))  # the same sum for both families
    return (~fold(words(pseudo + udp)) & 0xFFFF) or 0xFFFF


# ---- frames ----

def udp(source, destination, sport, dport, payload, check=None, length=None):
    length = 8 + len(payload) if length is None else length
    head = struct.pack(">HHHH", sport, dport, length, 0)
    if check is None:
        check = udp_checksum(source, destination, head + payload)
    return head[:6] + struct.pack(">H", check)


def ipv4(source, destination, total, ttl=64, tos=0, ident=0, flags=0x4000, protocol=17, first=0x45, options=b"",
         wrong=0):
    head = struct.pack(">BBHHHBBH", first, tos, total, ident, flags, ttl, protocol, 0)
    head += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed + options
    check = (~fold(words(head)) & 0xFFFF) ^ wrong
    return head[:10] + struct.pack(">H", check) + head[12:]


def ipv6(source, destination, length, hops=64, first=0x60000000, following=17):
    head = struct.pack(">IHBB", first, length, following, hops)
    return head + ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed


def ethernet(destination, source, kind, tags=b""):
    return destination + source + tags + struct.pack(">H", kind)


def headers(payload, v6=False, source=None, destination=None, sport=CLIENT, dport=SPV, eth_source=PEER_MAC,
            eth_destination=OWN_MAC, tags=b"", kind=None, check=None, udp_length=None, ip_length=None, **ip):
    source = source or (PEER6 if v6 else PEER4)
    destination = destination or (OWN6 if v6 else OWN4)
    datagram = udp(source, destination, sport, dport, payload, check, udp_length)
    length = 8 + len(payload) if ip_length is None else ip_length
    if v6:
        middle = ipv6(source, destination, length, **ip)
    else:
        middle = ipv4(source, destination, length + 20 + len(ip.get("options", b"")), **ip)
    kind = kind or (0x86DD if v6 else 0x0800)
    return [ethernet(eth_destination, eth_source, kind, tags), middle, datagram]


def reply_ttl(payload, ttl):
    is_native = len(payload) >= 16 and payload[:2] == b"LS"
    return 64 if is_native else min(ttl - 1, 64)


def turned(request, payload):
    """The reply's headers: addresses and ports changed, the IPv4 checksum updated, the UDP checksum whole.

    The TTL is 64 in the native format, and one less than the request's, at most 64, in a paper's."""
    eth, ip, datagram = request
    eth = eth[6:12] + eth[:6] + eth[12:]
    sport, dport, length, _ = struct.unpack(">HHHH", datagram)
    if ip[0] >> 4 == 4:
        old_check, = struct.unpack(">H", ip[10:12])
        old_ttl, = struct.unpack(">H", ip[8:10])
        ttl = reply_ttl(payload, ip[8])
        check = ~fold((~old_check & 0xFFFF) + (~old_ttl & 0xFFFF) + (ttl << 8 | 17)) & 0xFFFF
        ip = ip[:8] + bytes([ttl, 17]) + struct.pack(">H", check) + ip[16:20] + ip[12:16]
        source, destination = ip[12:16], ip[16:20]
    else:
        ip = ip[:7] + bytes([reply_ttl(payload, ip[7])]) + ip[24:40] + ip[8:24]
        source, destination = ip[8:24], ip[24:40]
    return [eth, ip, udp(source, destination, dport, sport, payload, length=length)]


# ---- native payloads ----

def header(op, body_bytes, status=0, ident=0x0102030405060708, magic=0x4C53, version=1):
    return struct.pack(">HBBHHQ", magic, version, op, status, body_bytes, ident)


def refusal(request, status):
    """The request's header, as a reply of the one version there is, with a status and nothing behind it."""
    return request[:2] + b"\x01" + bytes([request[3] | 0x80]) + struct.pack(">HH", status, 0) + request[8:16]


# ---- text of the files ----

def quoted(text):
    return f'"{text}"'


def hexes(key, data):
    if len(data) <= 32:
        return f'{key} = "{data.hex()}"'
    rows = [data[at:at + 32].hex() for at in range(0, len(data), 32)]
    return "\n".join([f'{key} = """', *rows, '"""'])


def parts(key, pieces):
    return "\n".join([f'{key} = """', *[piece.hex() for piece in pieces if piece], '"""'])
