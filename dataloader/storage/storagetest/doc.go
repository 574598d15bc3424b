// Package storagetest makes files fail in tests, at a chosen call and in a chosen way.
//
// [Every] runs code that reads files once without faults, and then once for each call that it made
// and each [Kind] of fault. [New] makes one file system that fails at one call.
package storagetest
