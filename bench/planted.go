// SPDX-License-Identifier: GPL-2.0-or-later
// A service in small: a map of sessions, and buffers of which a little is used.
package main

import "fmt"

type session struct {
	id   uint64
	data [48]byte
}

func next(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

func main() {
	sessions := make(map[uint64]*session)
	keys := make([]uint64, 0, 1500000)
	x := uint64(1)
	for len(keys) < cap(keys) {
		x = next(x)
		sessions[x] = &session{id: x}
		keys = append(keys, x)
	}
	buffers := make([][]byte, 96)
	for i := range buffers {
		buffers[i] = make([]byte, 4<<20)
		for k := 0; k < len(buffers[i]); k += 65536 {
			buffers[i][k] = 1
		}
	}
	sum := uint64(0)
	for r := 0; r < 12000000; r++ {
		x = next(x)
		sum += sessions[keys[(x>>33)%uint64(len(keys))]].id
		if r%64 == 0 {
			sum += uint64(buffers[(x>>20)%96][((x>>40)%64)*65536])
		}
	}
	fmt.Println(sum)
}
