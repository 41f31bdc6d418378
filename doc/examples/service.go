// SPDX-License-Identifier: GPL-2.0-or-later
// An HTTP service that answers from a map in memory.  With -requests N it asks itself for N random
// keys and ends, which makes one run for `tlbcost estimate`.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"strconv"
)

type item struct {
	name  string
	price int64
}

func main() {
	keys := flag.Int("keys", 3_000_000, "items in memory")
	requests := flag.Int("requests", 0, "ask for this many baskets, then end (0: serve until stopped)")
	basket := flag.Int("basket", 1000, "items of a basket")
	address := flag.String("listen", "127.0.0.1:0", "address")
	flag.Parse()

	items := make(map[uint64]*item, *keys)
	for key := 0; key < *keys; key++ {
		items[uint64(key)] = &item{strconv.Itoa(key), int64(key)}
	}
	http.HandleFunc("/basket", func(w http.ResponseWriter, r *http.Request) {
		seed, _ := strconv.ParseInt(r.URL.Query().Get("seed"), 10, 64)
		random, sum := rand.New(rand.NewSource(seed)), int64(0)
		for i := 0; i < *basket; i++ {
			sum += items[uint64(random.Intn(*keys))].price
		}
		fmt.Fprintln(w, sum)
	})
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	if *requests == 0 {
		log.Printf("listening on %s", listener.Addr())
		log.Fatal(http.Serve(listener, nil))
	}
	go http.Serve(listener, nil)
	for i := 0; i < *requests; i++ {
		answer, err := http.Get(fmt.Sprintf("http://%s/basket?seed=%d", listener.Addr(), i))
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
