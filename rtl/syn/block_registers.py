# SPDX-License-Identifier: Apache-2.0
"""Moves registers of a netlist for ECP5 into the RAM blocks and multipliers next to them.

Each block has registers of its own, which Yosys does not use. They are part of the block, so they have no wires and use
no cells. Tools of vendors do the same.
"""

import collections


# Parameters of a register without enable, whose clock is not inverted and which is 0 at first.
PLAIN = {"CEMUX": "1", "CLKMUX": "CLK", "REGSET": "RESET"}


def is_plain_register(cell: dict) -> bool:
    if cell["type"] != "TRELLIS_FF" or cell["connections"]["LSR"] != ["0"]:
        return False
    return all(cell["parameters"][name].strip() == value for name, value in PLAIN.items())


class Netlist:
    """The top module of a netlist as Yosys writes it, after synthesis for ECP5."""

    def __init__(self, netlist: dict):
        (top,) = (module for module in netlist["modules"].values() if "top" in module["attributes"])
        self.cells = top["cells"]
        self.readers = collections.defaultdict(list)  # by bit: name of the cell, or none for a port of the module
        self.registers = {}  # by output bit: name of a register that a block can take the place of
        for name, cell in self.cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "input":
                    for bit in bits:
                        self.readers[bit].append(name)
            if is_plain_register(cell):
                self.registers[cell["connections"]["Q"][0]] = name
        for port in top["ports"].values():
            for bit in port["bits"]:
                self.readers[bit].append(None)

    def blocks(self, kind: str) -> list[tuple[str, dict]]:
        """Returns the names and the cells of blocks."""
        return [(name, cell) for name, cell in self.cells.items() if cell["type"] == kind]

    def clock(self, register: str):
        return self.cells[register]["connections"]["CLK"]

    def remove(self, register: str):
        """Removes a register, and returns its connections."""
        connections = self.cells.pop(register)["connections"]
        del self.registers[connections["Q"][0]]
        return connections

    def register_after(self, bit) -> str | None:
        """Returns the register that alone reads the bit, if a block can take its place."""
        (name, *others) = self.readers[bit]
        cell = self.cells.get(name)
        if others or not cell or cell["type"] != "TRELLIS_FF" or cell["connections"]["DI"] != [bit]:
            return None
        return name if cell["connections"]["Q"][0] in self.registers else None


def use_output_registers(netlist: Netlist) -> int:
    """Uses the output registers of RAM blocks, and returns the number of blocks.

    Both ports of a block get them, if each of its bits that has a reader is read by one register and nothing else.
    """
    moved = 0
    for _, block in netlist.blocks("DP16KD"):
        ports = block["connections"]
        outputs = [
            (port, netlist.register_after(bits[0]))
            for port, bits in ports.items()
            if port.startswith("DO") and bits and netlist.readers[bits[0]]
        ]
        if not outputs or not all(
            register and netlist.clock(register) == ports[f"CLK{port[2]}"] for port, register in outputs
        ):
            continue
        for port, register in outputs:
            ports[port] = netlist.remove(register)["Q"]
        for side in "AB":
            block["parameters"][f"REGMODE_{side}"] = "OUTREG"
            ports[f"OCE{side}"] = ["1"]
        moved += 1
    return moved


def use_multiplier_registers(netlist: Netlist) -> int:
    """Uses the registers of multipliers at inputs and outputs, and returns the number of multipliers.

    A multiplier gets both, if each bit of its inputs is constant or comes from a register, and each bit of its product
    that has a reader is read by one register and nothing else. A register in front of it stays if others read it.
    """
    moved = 0
    for name, block in netlist.blocks("MULT18X18D"):
        ports = block["connections"]
        operands = {port: bits[0] for port, bits in ports.items() if port[0] in "AB" and port[1:].isdigit()}
        inputs = {port: netlist.registers.get(bit) for port, bit in operands.items() if isinstance(bit, int)}
        outputs = {
            port: netlist.register_after(bits[0])
            for port, bits in ports.items()
            if port[0] == "P" and netlist.readers[bits[0]]
        }
        registers = [*inputs.values(), *outputs.values()]
        if not inputs or not outputs or not all(registers):
            continue
        clocks = {tuple(netlist.clock(register)) for register in registers}
        if len(clocks) > 1:
            continue
        for port, register in inputs.items():
            ports[port] = netlist.cells[register]["connections"]["DI"]
            netlist.readers[ports[port][0]].append(name)
        for port, register in outputs.items():
            ports[port] = netlist.remove(register)["Q"]
        ports["CLK0"], ports["CE0"], ports["RST0"] = list(*clocks), ["1"], ["0"]
        block["port_directions"] |= dict.fromkeys(["CLK0", "CE0", "RST0"], "input")
        for side in ["INPUTA", "INPUTB", "OUTPUT"]:
            block["parameters"][f"REG_{side}_CLK"] = "CLK0"
        moved += 1
    remove_unread_registers(netlist)
    return moved


def remove_unread_registers(netlist: Netlist):
    """Removes the registers whose output has no reader any more."""
    read = {
        bit
        for cell in netlist.cells.values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "input"
        for bit in bits
    }
    for bit, name in list(netlist.registers.items()):
        if bit not in read and None not in netlist.readers[bit]:
            netlist.remove(name)


def use_block_registers(netlist: dict) -> tuple[int, int]:
    """Uses the registers of all blocks. Returns the numbers of RAM blocks and of multipliers that got some."""
    top = Netlist(netlist)
    return use_output_registers(top), use_multiplier_registers(top)
