# Each line calls one tool; longer steps are scripts in scripts/.

# rustup's folder comes last, so that a cargo which is already on the path is used first.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := build
.PHONY: setup dashboard screenshots build run test test-fresh test-kernels bench papers fuzz soak hbase spec cli docs \
	lint deny fmt bench-clients package test-package test-reproducible rtl-setup rtl-lint rtl-test rtl-formal rtl-area \
	rtl-fmax rtl-soak

# `lineside --version` shows the commit. All targets that build for release set the same variable, so that none of them
# has to build again what another one has built.
build run bench papers soak package: export LINESIDE_COMMIT ?= $(shell bash scripts/commit.sh)

setup:
	@bash scripts/setup.sh

# Builds the dashboard page of the console into target/dashboard. Other targets build it too if Node.js and npm exist.
dashboard:
	@bash scripts/dashboard.sh

build: setup
	@bash scripts/dashboard.sh --if-possible
	cargo build --release --locked -p lineside
	@bash scripts/split-debug.sh target/release/lineside

# Runs a demonstration that needs no preparation; ARGS are its options, as in `make run ARGS="--datapath socket"`. The
# demonstration prints commands of `lineside`, so both programs are built.
run: setup
	@bash scripts/dashboard.sh --if-possible
	cargo build --release --locked --quiet -p lineside -p lineside-lab
	cargo run --release --locked --quiet -p lineside-lab -- demo $(ARGS)

# Incremental compilation is off, because it makes a single build from scratch, as in CI, slower.
test: export CARGO_INCREMENTAL ?= 0
test: setup
	@bash scripts/dashboard.sh --if-possible
	@bash scripts/test-workspace.sh

# Writes the screenshots of README.md into docs/images. Needs Chromium; as root, `spv` and `transfer` run on XDP.
screenshots: dashboard
	@bash scripts/test-dashboard.sh docs/images

# Writes the files of a release into target/package: .deb, tarball, image, compose file, SBOM, checksums. See
# docs/install.md.
package: setup
	@bash scripts/package.sh

# Tests the files that `make package` wrote: installs the package, and runs the service under systemd in a container.
# The container needs root.
test-package:
	@bash scripts/test-package.sh

# Builds the program of a release in two folders and compares the bytes. Takes about 15 minutes on two cores.
test-reproducible: setup
	@bash scripts/test-reproducible.sh

# Runs `make run` and `make test` on a fresh system: DISTRO=bookworm or noble, see scripts/test-fresh.sh.
test-fresh:
	bash scripts/test-fresh.sh $(DISTRO)

# Runs the XDP tests under the oldest supported kernel, in qemu.
test-kernels: setup
	bash scripts/test-kernels.sh

# Runs all benches on this machine. They need two cores without other work; spv, transfer, column and cost need root.
bench: build
	cargo run --release --locked --quiet -p lineside-lab -- bench spv
	cargo run --release --locked --quiet -p lineside-lab -- bench electrum
	cargo run --release --locked --quiet -p lineside-lab -- bench transfer
	cargo run --release --locked --quiet -p lineside-lab -- bench column
	cargo run --release --locked --quiet -p lineside-lab -- bench cost
	cargo run --release --locked --quiet -p lineside-lab -- bench verify
	cargo run --release --locked --quiet -p lineside-lab -- bench fabric
	cargo run --release --locked --quiet -p lineside-lab -- bench hybrid

# Measures the Python and the Go client and judges their gates. Needs two cores without other work, Python and Go.
bench-clients: build
	bash scripts/bench-clients.sh

# Makes the papers' figures as SVG and CSV, and one page with all of them: papers/index.html. Needs root and two cores
# without other work, and takes at most 15 minutes; see docs/papers.md.
papers: setup
	cargo run --release --locked --quiet -p lineside-lab -- papers all $(ARGS)

# Tests every decoder under libFuzzer, for a minute each; `make test` runs the same targets briefly.
fuzz: setup
	@bash scripts/fuzz.sh

# Does long runs that check every reply: 10^8 replies of `spv` and of `column` while chain or table changes, the chaos
# cases, 10^7 answers of `spv` while it follows a simulated node, and 10^7 operations of `transfer` with retention. See
# docs/soak.md and docs/chaos.md for the checks and results.
soak: setup
	cargo run --release --locked -p lineside-lab -- soak spv --replies 100000000 --seed 1
	cargo run --release --locked -p lineside-lab -- soak column --replies 100000000 --seed 1
	cargo build --release --locked -p lineside
	cargo run --release --locked -p lineside-lab -- chaos --long --seed 1
	LINESIDE_FOLLOW_ANSWERS=10000000 cargo test --release --locked -p lineside-spv --test follow competing -- --nocapture
	LINESIDE_RETENTION_OPERATIONS=10000000 cargo test --release --locked -p lineside-transfer --test retention

# The FPGA datapath in rtl/: installs its tools into target/ (rtl-setup), checks the SystemVerilog, tests the simulated
# NIC, runs the proofs, and counts the cells. Lineside needs these tools only for a build with the cargo feature `rtl`.
rtl-setup:
	bash scripts/rtl-setup.sh area formal

rtl-lint:
	@bash scripts/rtl-lint.sh
	@bash scripts/test-rtl-transfer.sh lint

rtl-test:
	@bash scripts/test-rtl.sh
	@bash scripts/rtl-cocotb.sh
	@bash scripts/test-rtl-transfer.sh sim nic
	cargo test --locked -p lineside-conformance --features rtl --test spv_rtl --test transfer_rtl
	cargo test --locked -p lineside --features rtl --test rtl --test explain --test explain_transfer

rtl-formal:
	@bash scripts/rtl-formal.sh

rtl-area:
	@bash scripts/rtl-area.sh --check

# Frequencies of the modules of rtl/ on an ECP5-85K; takes more than an hour.
rtl-fmax:
	@bash scripts/rtl-fmax.sh

# Compares 10^7 frames of each service that pass the simulated NIC with the Rust model; see docs/rtl.md.
rtl-soak:
	bash scripts/rtl-setup.sh
	cargo build --release --locked -p lineside-lab --features rtl
	target/release/lineside-lab diff spv --datapaths socket,rtl --count 10000000 --seed 1
	target/release/lineside-lab diff transfer --datapaths socket,rtl --count 10000000 --seed 1

# Builds the Java programs for HBase: the coprocessor and the test clients. Needs a JDK and Maven.
hbase:
	mvn --batch-mode --quiet --file clients/java/pom.xml package

spec:
	cargo run --locked -p lineside-spec

# Writes docs/cli.md, the reference of commands, from the program's own help.
cli:
	LINESIDE_WRITE_CLI=1 cargo test --quiet --locked -p lineside --lib reference

# Builds the documentation as a book in target/book. All links and anchors are checked first.
docs:
	cargo test --quiet --locked -p lineside-tidy --test links
	@bash scripts/docs.sh

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@bash scripts/deny.sh

# Checks licences, sources and banned packages of the dependencies, without the security advisories, which change every
# day.
deny: setup
	@bash scripts/deny.sh --no-advisories

fmt:
	cargo fmt --all
