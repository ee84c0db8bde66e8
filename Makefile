# Shortcuts for people; .ci/run runs the same commands.
GO ?= go
FUZZTIME ?= 5s
BENCHTIME ?= 1s
SOAKTIME ?= 10m
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: plans replicas steady build test race lint fmt fuzz bench kill mixed soak conformance images compose model paragraphs readme ci clean

build: ## a static binary in bin/leasehold
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X github.com/leasehold/leasehold/cmd/leasehold/app.Version=$(VERSION)' -o bin/leasehold ./cmd/leasehold

test: ## every test
	$(GO) test ./...

race: ## every test with the race detector (needs a C compiler)
	$(GO) test -race ./...

lint: ## the linters of .golangci.yml, in the version that CI pins
	.ci/lint.sh

fmt: ## format as the linters want it
	.ci/lint.sh fmt

fuzz: ## each fuzz target for FUZZTIME
	FUZZTIME=$(FUZZTIME) .ci/fuzz.sh

bench: ## benchmarks of the engine and the stores
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) ./core/... ./store/... ./conformance/enginetest

kill: ## kill -9 under load, 20 times
	LEASEHOLD_KILL_ROUNDS=20 $(GO) test -count 1 -v -timeout 30m -run Kill ./conformance/...

mixed: ## exclusive and shared consumers on one queue for a minute
	LEASEHOLD_MIXED_TIME=60s $(GO) test -count 1 -v -timeout 10m -run Mixed ./conformance/...

soak: ## two gateways and PostgreSQL in containers, faults all the time, for ten minutes
	LEASEHOLD_SOAK_TIME=$(SOAKTIME) $(GO) test -count 1 -v -timeout 40m -run Soak ./conformance/blackbox

conformance: ## every protocol's cases on every target, with the report
	$(GO) run ./conformance/run -list

images: ## the images for containers where none can be pulled
	.ci/docker.sh images

compose: ## compose.yaml with those images
	.ci/compose.sh

model: ## Queen's rules against a model for ten minutes
	LEASEHOLD_QUEEN_MODEL_TIME=10m $(GO) test -count 1 -v -timeout 60m -run TestModel ./adapters/queen

plans: ## the plan of every statement on PostgreSQL, at 10 and 5,000,000 messages, 1 and 100,000 partitions
	LEASEHOLD_TEST_PLANS_FULL=1 $(GO) test -count 1 -v -timeout 40m -run TestPlans ./store/postgres

replicas: ## two gateways on 1 and on 100 partitions for a minute, with the check that their answers are linearizable
	LEASEHOLD_REPLICAS_TIME=60s $(GO) test -count 1 -v -timeout 20m -run TestTwoGateways ./conformance/postgres

steady: ## 10,000,000 messages through a queue on PostgreSQL, with the tables' sizes afterwards
	LEASEHOLD_STEADY_MESSAGES=10000000 $(GO) test -count 1 -v -timeout 60m -run TestSteadyQueue ./conformance/postgres

paragraphs: ## which paragraphs of Queen's protocol the tests cover
	$(GO) test -count 1 -v -run TestParagraphs ./adapters/queen

readme: ## every command of README.md against a server that it starts
	.ci/readme.sh

ci: ## all that CI does
	.ci/run

clean:
	rm -rf bin leasehold
