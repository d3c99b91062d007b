# Thin on purpose: each line calls one tool.

# rustup's folder comes last, so that a cargo already on the path is the one used.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := build
.PHONY: setup build run test test-fresh test-kernels bench papers fuzz soak hbase spec cli docs lint deny fmt

setup:
	@bash scripts/setup.sh

build: setup
	cargo build --release --locked -p lineside
	@bash scripts/split-debug.sh target/release/lineside

# A demonstration that needs nothing; ARGS are its options, as in `make run ARGS="--datapath socket"`. The demonstration
# prints commands of `lineside`, which is built with it.
run: setup
	cargo build --release --locked --quiet -p lineside -p lineside-lab
	cargo run --release --locked --quiet -p lineside-lab -- demo $(ARGS)

# Once from nothing, as CI does it, is sooner without what the compiler keeps for the next time.
test: export CARGO_INCREMENTAL ?= 0
test: setup
	cargo test --workspace --locked
	cargo test -p lineside-verify --no-default-features --locked
	@bash scripts/test-kafka.sh
	@bash scripts/test-btcd.sh
	@bash scripts/test-spv-peers.sh

# The same on a system that has nothing yet: DISTRO=bookworm or noble, see scripts/test-fresh.sh.
test-fresh:
	bash scripts/test-fresh.sh $(DISTRO)

# The XDP tests under the oldest kernel that is meant to work, in qemu.
test-kernels: setup
	bash scripts/test-kernels.sh

# The figures, on this machine: two quiet cores, and root for the first.
bench: build
	cargo run --release --locked --quiet -p lineside-lab -- bench spv
	cargo run --release --locked --quiet -p lineside-lab -- bench electrum
	cargo run --release --locked --quiet -p lineside-lab -- bench transfer
	cargo run --release --locked --quiet -p lineside-lab -- bench column
	cargo run --release --locked --quiet -p lineside-lab -- bench verify
	cargo run --release --locked --quiet -p lineside-lab -- bench fabric
	cargo run --release --locked --quiet -p lineside-lab -- bench hybrid

# The papers' figures as SVG and CSV in papers-spv/: root and two quiet cores, about five minutes; see docs/papers.md.
papers: setup
	cargo run --release --locked --quiet -p lineside-lab -- papers spv $(ARGS)

# Every decoder under libFuzzer, a minute each; `make test` runs the same targets briefly.
fuzz: setup
	@bash scripts/fuzz.sh

# Ten to the eighth checked replies of each while chain or table changes, ten to the seventh behind a simulated node;
# docs/soak.md has results.
soak: setup
	cargo run --release --locked -p lineside-lab -- soak spv --replies 100000000 --seed 1
	cargo run --release --locked -p lineside-lab -- soak column --replies 100000000 --seed 1
	cargo build --release --locked -p lineside
	cargo run --release --locked -p lineside-lab -- chaos --long --seed 1
	LINESIDE_FOLLOW_ANSWERS=10000000 cargo test --release --locked -p lineside-spv --test follow competing -- --nocapture
	LINESIDE_RETENTION_OPERATIONS=10000000 cargo test --release --locked -p lineside-transfer --test retention

# What runs in Java beside HBase; needs a JDK and Maven.
hbase:
	mvn --batch-mode --quiet --file clients/java/pom.xml package

spec:
	cargo run --locked -p lineside-spec

# docs/cli.md, the reference of commands, from the program's own help.
cli:
	LINESIDE_WRITE_CLI=1 cargo test --quiet --locked -p lineside --lib reference

# The documentation as a book in target/book; every link and anchor of it is checked first.
docs:
	cargo test --quiet --locked -p lineside-tidy --test links
	@bash scripts/docs.sh

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@bash scripts/deny.sh

# Licences, sources and banned packages of the dependencies, without the security advisories, which change every day.
deny: setup
	@bash scripts/deny.sh --no-advisories

fmt:
	cargo fmt --all
