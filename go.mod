module surepipe

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	golang.org/x/sync v0.24.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
