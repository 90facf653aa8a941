# Commands for people. What they do is in scripts/; this file only names them.

.PHONY: help demo test gate fix long-test failures long-failures fuzz counts bindings fs-test fs-bench console-test bench bench-ten-million peers optimize

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "make %-18s %s\n", $$1, $$2 }' Makefile

demo:  ## build the tyr command and run the demonstration (installs what is missing)
	@scripts/demo

test:  ## install what is missing, then run the gate
	@scripts/prepare
	@scripts/gate

gate:  ## read-only: format, clippy, rustdoc, dependency policy, documents, all tests, instruction counts
	@scripts/gate

fix:  ## format, and let clippy fix what it can
	@scripts/fix

long-test:  ## LONG=20 times as many random cases, seeds, and kills
	@scripts/long-test

failures:  ## the short course of failures of a real cluster; FAILURES='--help' lists the options
	@scripts/failures $(FAILURES)

long-failures:  ## RUNS=10 clusters with FAULTS=30 failures each
	@scripts/long-failures

fuzz:  ## every fuzz target for FUZZ_SECONDS=60
	@scripts/fuzz

counts:  ## instruction counts of the hot paths beside their recorded bounds; COUNTS=--record records them anew
	@scripts/counts $(COUNTS)

bindings:  ## build and test the bindings for C, C++, and Python, and the preload library; BINDINGS=c one of them, c_bench what it costs
	@scripts/bindings $(BINDINGS)

fs-test:  ## mount a file system, in a directory and of a cluster, and have many programs use it; FS=--quick as in the gate, FS='--steps 50000' longer
	@scripts/fs-test $(FS)

fs-bench:  ## measure a mounted file system beside the local one, bindfs, and GlusterFS; FS='--rounds 1' shorter
	@scripts/fs-bench $(FS)

console-test:  ## look at the console in a headless Chromium; CONSOLE='--keep PATH' keeps the screenshots
	@scripts/console-test $(CONSOLE)

bench:  ## compare with RocksDB and the bare disk; BENCH='--help' lists the options
	@scripts/bench $(BENCH)

bench-ten-million:  ## ten million blobs of 100 bytes: load, memory, open times
	@scripts/bench ten-million $(BENCH)

peers:  ## compare a cluster with RADOS, Redis, PostgreSQL, etcd on this machine; PEERS='--help' lists the options
	@scripts/peers $(PEERS)

optimize:  ## build the tyr command with a profile of its own work, in target/optimized; it takes up to a sixth less processor time
	@scripts/optimize
