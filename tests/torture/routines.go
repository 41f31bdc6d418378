// SPDX-License-Identifier: GPL-2.0-or-later

// Do goroutines, which the runtime preempts by signals, timers and commands work as if nobody were
// there?
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

var begun = time.Now()

func more() bool {
	until := os.Getenv("TORTURE_UNTIL")
	if until == "" {
		return time.Since(begun) < time.Second
	}
	_, err := os.Stat(until)
	return err != nil && time.Since(begun) < time.Minute
}

func main() {
	var group sync.WaitGroup
	var wrong, sent, received atomic.Int64
	values := make(chan int, 8)
	expected := sha256.Sum256(make([]byte, 10000))
	run := func(work func()) {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				work()
				if !more() {
					return
				}
			}
		}()
	}
	for i := 0; i < 4; i++ {
		run(func() {
			// New memory each time: the garbage collector has work to do.
			if sha256.Sum256(make([]byte, 10000)) != expected {
				wrong.Add(1)
			}
		})
		run(func() {
			sent.Add(1)
			values <- 1
		})
	}
	run(func() { time.Sleep(time.Millisecond) })
	run(func() {
		output, err := exec.Command("sh", "-c", "echo out; exit 4").Output()
		if code, is := err.(*exec.ExitError); !is || code.ExitCode() != 4 || string(output) != "out\n" {
			wrong.Add(1)
		}
	})
	done := make(chan bool)
	go func() {
		for value := range values {
			received.Add(int64(value))
		}
		done <- true
	}()
	group.Wait()
	close(values)
	<-done
	fmt.Println("wrong", wrong.Load(), "all received", sent.Load() == received.Load())
	os.Exit(19)
}
