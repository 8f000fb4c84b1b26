# Every target does its own set-up; see CONTRIBUTING.md.
GO      ?= go
BIN     := bin/sluice
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Packages whose tests run a second time under the race detector: those in which goroutines share memory.
RACE    := ./xdp/ring ./conntrack ./engine ./engine/control ./engine/health ./engine/fib ./dns

.PHONY: help build demo test race lint generate bench fuzz clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/sluice, static
	@scripts/need.sh build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/sluice

demo: build ## real clients through a gateway in namespaces of their own (root)
	$(BIN) demo

test: build ## all tests; as root also those in network namespaces
	@scripts/need.sh test
	SLUICE_BIN=$(CURDIR)/$(BIN) $(GO) tool gotestsum --format pkgname --format-hide-empty-pkg -- -count=1 ./...
	@$(MAKE) --no-print-directory race

# What the appliance costs when idle is not what it costs under the detector.
race: ## the concurrent packages under the race detector
	@scripts/need.sh test
	CGO_ENABLED=1 $(GO) tool gotestsum --format pkgname -- -count=1 -race -short -skip '^TestRunIdle$$' $(RACE)

lint: ## formatting, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

generate: ## rebuild the committed BPF objects
	@scripts/need.sh generate
	$(GO) generate ./...

bench: build ## micro benchmarks, then the contenders side by side in namespaces (root)
	@scripts/need.sh bench
	$(GO) run ./bench/cmd/sluice-bench
	$(GO) run ./bench/cmd/sluice-bench dns

fuzz: ## each fuzz target for FUZZTIME (10s)
	@scripts/fuzz.sh $(or $(FUZZTIME),10s)

clean: ## what building leaves
	rm -rf bin bench/results
