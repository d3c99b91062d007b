# SPDX-License-Identifier: Apache-2.0
"""The XDP programs of xdp/, compiled for user space (xdp/native/native.c), with maps in the memory of this process.

They are the oracle of the random frames: C code that shares nothing with the RTL.
"""

import ctypes
import functools
import ipaddress
import mmap
import struct
import subprocess

from lineside_rtl import COUNTERS, DROPS, ROOT

FOLDER = ROOT / "target/rtl-native"
MAP_32BIT = 0x40
PAGE_BYTES = 8192
SLOTS, SPV_SLOT, ADDRESSES = 8, 1, 8
LINE_BYTES, BLOCK_BYTES, CONTROL_BYTES = 64, 128, 176
VERDICTS = {1: "drop", 2: "forward", 3: "reply"}


@functools.cache
def build():
    """Compiles and loads the programs once; each XdpNative gives them its own maps."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    services = sorted(path.name.removesuffix(".bpf.c") for path in (ROOT / "xdp").glob("*.bpf.c"))
    services.remove("root")
    text = "".join(
        f'#define _license ls_license_{name}\n#include "{ROOT}/xdp/{name}.bpf.c"\n#undef _license\n' for name in services
    )
    text += "#define LS_NATIVE_SERVICES(X)" + "".join(f" X({name}, {name.upper()})" for name in services) + "\n"
    (FOLDER / "services.h").write_text(text)
    library = FOLDER / "libxdp.so"
    includes = [f"-I{ROOT}/xdp/native", f"-I{FOLDER}", "-D__TARGET_ARCH_x86", "-Wno-unknown-pragmas"]
    native = ROOT / "xdp/native/native.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *includes, "-o", library, native], check=True)
    return ctypes.CDLL(str(library))


class XdpRoot:
    """The root program and its maps. A subclass has a service: its slot, its port, and the map with its counters."""

    slot, port, counts, counter_names = SPV_SLOT, 7701, "spv_counts", COUNTERS

    def __init__(self):
        self._library = build()
        self._library.ls_native_bind.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64]
        self._library.ls_native_run.argtypes = [ctypes.c_uint32, ctypes.c_uint32]
        self._page = mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self.maps = {}

    def bind(self, names, sizes):
        """Binds maps to memory: those in `sizes` with these sizes, and the others in `names` with one value."""
        for name in [*sizes, *names, "ls_endpoints", "ls_scratches", "ls_drop_counts"]:
            size = sizes.get(name) or self._library.ls_native_value_bytes(name.encode())
            self.maps[name] = ctypes.create_string_buffer(size)
            assert self._library.ls_native_bind(name.encode(), self.maps[name], size) == 0, name

    def set_constants(self, section: bytes, data: bytes):
        assert self._library.ls_native_set(section, data, len(data)) == 0

    def write(self, name: str, at: int, data: bytes):
        ctypes.memmove(ctypes.addressof(self.maps[name]) + at, data, len(data))

    def write_endpoint(self, mac, loopback, v4, broadcasts, v4_answered, v6, v6_answered):
        """Writes struct ls_endpoint; the addresses that are answered come first."""
        packed = lambda texts, bytes_each, fill: b"".join(  # noqa: E731
            [ipaddress.ip_address(text).packed for text in texts] + [fill] * (ADDRESSES - len(texts))
        ).ljust(ADDRESSES * bytes_each, b"\0")
        ports = [self.port if slot == self.slot else 0 for slot in range(SLOTS)]
        data = mac + bytes([loopback, 0]) + struct.pack(">8H", *ports)
        data += struct.pack("<4I", v4_answered, v6_answered, len(v4), len(v6))
        data += packed(v4, 4, bytes(4)) + packed(broadcasts, 4, b"\xff" * 4) + packed(v6, 16, bytes(16))
        self.write("ls_endpoints", 0, data)

    def run(self, frame: bytes):
        """Verdict and frame after the program; a dropped frame is empty."""
        self._page[: len(frame)] = frame
        verdict = VERDICTS[self._library.ls_native_run(self._address, self._address + len(frame))]
        return verdict, b"" if verdict == "drop" else self._page[: len(frame)]

    def counters(self) -> dict[str, int]:
        counts = struct.unpack_from(f"<{len(self.counter_names)}Q", self.maps[self.counts])
        drops = struct.unpack_from("<6Q", self.maps["ls_drop_counts"], self.slot * len(DROPS) * 8)
        return dict(zip(self.counter_names, counts, strict=True)) | {
            f"drop {name}": count for name, count in zip(DROPS, drops, strict=True)
        }


class XdpNative(XdpRoot):
    """The root program with `spv`, for tables without Merkle trees."""

    def __init__(self, line_bits, block_bits, ways, paper_index):
        super().__init__()
        set_bits = line_bits - ways.bit_length() + 1
        geometry = struct.pack("<5I", set_bits, ways, int(paper_index), (1 << block_bits) - 1, 0)
        self.set_constants(b".rodata.spv", geometry)
        sizes = {"spv_lines": LINE_BYTES << line_bits, "spv_blocks": BLOCK_BYTES << block_bits}
        self.bind(["spv_trees", "spv_control", "spv_counts", "spv_drafts", "spv_proofs"], sizes)
        self.control = struct.pack("<5I", set_bits, ways, (1 << block_bits) - 1, int(paper_index), 0)

    def write_control(self, lease_until_ns, epoch, key, tip_hash, tip_height, paper_format):
        data = struct.pack("<5Q", lease_until_ns, epoch, *key) + tip_hash + struct.pack("<I", tip_height)
        data += self.control[:16] + struct.pack("<3I", int(paper_format), 3, 0)
        self.write("spv_control", 0, data)

    def write_line(self, index, generation, block, txid, seq=0):
        data = struct.pack("<Q", seq) + txid + struct.pack("<3I", block, generation, 0)
        self.write("spv_lines", index * LINE_BYTES, data)

    def write_block(self, slot, generation, height, root, block_hash):
        root_sum = sum(struct.unpack("<8I", root))
        data = struct.pack("<2I", generation, height) + root + struct.pack("<2Q2I", root_sum, 0, 0, 0) + block_hash
        self.write("spv_blocks", slot * BLOCK_BYTES, data)
