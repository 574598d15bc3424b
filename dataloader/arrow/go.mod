module github.com/evenkeel/evenkeel/dataloader/arrow

go 1.26.0

replace github.com/evenkeel/evenkeel => ../..

require (
	github.com/apache/arrow-go/v18 v18.8.0
	github.com/evenkeel/evenkeel v0.0.0
	github.com/google/flatbuffers v25.12.19+incompatible
	github.com/klauspost/compress v1.20.4
	go.uber.org/goleak v1.3.0
)

require (
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.29 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/exp v0.0.0-20260112195511-716be5621a96 // indirect
	golang.org/x/sys v0.50.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
