// SPDX-License-Identifier: GPL-2.0-or-later

// A program whose memory is mapped by the Go runtime.
package main

import (
	"os"
	"time"
)

func main() {
	block := make([]byte, 96<<20)
	for i := range block {
		block[i] = 1
	}
	if name := os.Getenv("SMAPS"); name != "" {
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil || os.WriteFile(name, smaps, 0o600) != nil {
			os.Exit(1)
		}
	}
	time.Sleep(150 * time.Millisecond)
	if block[77] != 1 {
		panic("not there")
	}
}
