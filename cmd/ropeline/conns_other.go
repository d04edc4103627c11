//go:build !unix

package main

// maxConns leaves the bound on visitors' connections to the server's default.
func maxConns() int { return 0 }
