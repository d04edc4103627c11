# Names for the scripts, which need no make.
.PHONY: build demo test lint bench e2e

build:
	CGO_ENABLED=0 go build -trimpath -o ropeline ./cmd/ropeline

demo:
	scripts/demo

test:
	scripts/test

lint:
	scripts/lint

bench:
	scripts/bench

e2e:
	scripts/e2e
