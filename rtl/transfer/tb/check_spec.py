# SPDX-License-Identifier: Apache-2.0
"""Compares the constants of ls_transfer_pkg.sv with spec/transfer.toml. Run in rtl/transfer with Python 3.11."""

import re
import sys
import tomllib
from pathlib import Path

package = Path("ls_transfer_pkg.sv").read_text()
spec = tomllib.loads(Path("../../spec/transfer.toml").read_text())
constants = {constant["name"]: constant["value"] for constant in spec["constant"]}
errors = []


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def number(pattern):
    found = re.search(pattern, package)
    return int(found[1]) if found else None


codes = {camel(code["name"]): code["code"] for code in spec["code"]}
in_package = {name: int(value) for name, value in re.findall(r"\bCode(\w+) = 4'd(\d+)", package)}
for name, value in in_package.items():
    if codes.get(name) != value:
        errors.append(f"Code{name} is {value} in the package and {codes.get(name)} in the specification")
# The store gives no codes of linked and pending operations.
for name in set(codes) - set(in_package) - {"LinkedFailed", "UnknownPending", "PendingExists"}:
    errors.append(f"Code{name} is missing in the package")
for name in ("create", "issue", "transfer", "refer", "freeze", "unfreeze"):
    value = number(rf"\bCommand{camel(name)} = 4'd(\d+)")
    if value != int(constants[f"command_{name}"]):
        errors.append(f"Command{camel(name)} is {value}, not {constants[f'command_{name}']}")
wide = package.split("`else")[1]
ways = int(re.search(r"\bWays = (\d+)", wide)[1])
if ways != int(constants["bucket_cells"]):
    errors.append(f"Ways is {ways}, not {constants['bucket_cells']}")
operation = next(entry for entry in spec["message"] if entry["name"] == "operation")
message = {field["name"]: field["type"] for field in operation["field"]}
for name, kind in (("source", "b16"), ("destination", "b16"), ("amount", "be64")):
    if message[name] != kind:
        errors.append(f"the field {name} of an operation is {message[name]}, not {kind}")
# The number of used cells from which a second bucket is chosen is a constant of the XDP program.
crowded = int(re.search(r"#define TRANSFER_CROWDED (\d+)", Path("../../xdp/transfer_execute.h").read_text())[1])
if number(r"\bCrowded = (\d+)") != crowded:
    errors.append(f"Crowded is not {crowded}, as in xdp/transfer_execute.h")
for error in errors:
    print(f"ls_transfer_pkg.sv: {error}", file=sys.stderr)
sys.exit(1 if errors else 0)
