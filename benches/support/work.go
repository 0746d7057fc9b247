// Command work is net/http with a handler that computes, as the servers of work.rs.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
)

func main() {
	usual, rare := rounds("USUAL"), rounds("RARE")
	var count atomic.Uint64
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		work := usual
		if rare > 0 && count.Add(1)%100 == 0 {
			work = rare
		}
		result.Store(compute(work))
		io.WriteString(w, "done")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	// The benchmark closes stdin when it ends.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, nil))
}

var result atomic.Uint64

func compute(rounds uint64) uint64 {
	x := uint64(1)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func rounds(name string) uint64 {
	value, _ := strconv.ParseUint(os.Getenv(name), 10, 64)
	return value
}
