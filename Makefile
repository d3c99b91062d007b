# Thin on purpose: each line calls one tool.

# rustup's folder comes last, so that a cargo already on the path is the one used.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := build
.PHONY: setup build run test bench lint fmt

setup:
	@bash scripts/setup.sh

build: setup
	cargo build --release --locked

run: build
	./target/release/lineside run --demo

test: setup
	cargo test --workspace --locked

bench: build
	./target/release/lineside bench spv

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

fmt:
	cargo fmt --all
