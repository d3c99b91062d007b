# Thin on purpose: each line calls one tool.

# rustup's folder comes last, so that a cargo already on the path is the one used.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := build
.PHONY: setup build test soak spec lint fmt

setup:
	@bash scripts/setup.sh

build: setup
	cargo build --release --locked

test: setup
	cargo test --workspace --locked

# Ten to the eighth checked replies while the chain changes; docs/soak.md has a result.
soak: setup
	cargo run --release --locked -p lineside -- soak --replies 100000000 --seed 1

spec:
	cargo run --locked -p lineside-spec

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

fmt:
	cargo fmt --all
