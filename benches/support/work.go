// Command work is net/http with a handler that computes or waits, as the servers of work.rs.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

func main() {
	usual, rare := rounds("USUAL"), rounds("RARE")
	var count atomic.Uint64
	pool := make(chan struct{}, rounds("PERMITS"))
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if cap(pool) > 0 {
			query(r.Context(), pool)
			io.WriteString(w, "done")
			return
		}
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

// query waits for a connection, as database/sql does, unless the peer leaves.
func query(ctx context.Context, pool chan struct{}) {
	select {
	case pool <- struct{}{}:
		time.Sleep(5 * time.Millisecond)
		<-pool
	case <-ctx.Done():
	}
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
