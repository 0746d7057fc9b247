// Command compare-go is the peers that are written in Go: two servers and a client.
//
//	compare-go fasthttp buffer|stream
//	compare-go net/http buffer|stream
//	compare-go observed fasthttp [LOG]
//	compare-go ask get|close|down|up IN_FLIGHT ADDRESS
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
)

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 2 && args[0] == "fasthttp":
		serveFasthttp(listen(), args[1] == "stream")
	case len(args) == 2 && args[0] == "net/http":
		serveNetHTTP(listen())
	case len(args) == 2 && args[0] == "observed":
		serveObserved(listen(), "")
	case len(args) == 3 && args[0] == "observed":
		serveObserved(listen(), args[2])
	case len(args) == 4 && args[0] == "ask":
		inFlight, err := strconv.Atoi(args[2])
		if err != nil {
			log.Fatal(err)
		}
		ask(args[1], inFlight, args[3])
	default:
		log.Fatalf("nobody is called %q", args)
	}
}

// listen says where it listens, then answers each line with the allocations so far, and ends with the parent.
func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(allocations())
		}
		os.Exit(0)
	}()
	return listener
}

func allocations() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}
