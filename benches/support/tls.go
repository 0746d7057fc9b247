// Command tls is net/http over TLS, which the benchmark of that name starts with its folder: one processor, and session
// tickets as Go has them.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

func main() {
	runtime.GOMAXPROCS(1)
	folder := os.Args[1]
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, []byte("Hello, world!"))
	})
	for _, name := range []string{"small", "large"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			log.Fatal(err)
		}
		mux.HandleFunc("GET /memory/"+name, func(w http.ResponseWriter, _ *http.Request) {
			respond(w, content)
		})
	}
	mux.Handle("GET /", http.FileServer(http.Dir(folder)))
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	log.Fatal(server.ServeTLS(listen(), filepath.Join(folder, "chain.pem"), filepath.Join(folder, "key.pem")))
}

func respond(w http.ResponseWriter, content []byte) {
	header := w.Header()
	header.Set("Server", "corehttp")
	header.Set("Content-Type", "text/plain")
	header.Set("Content-Length", strconv.Itoa(len(content)))
	w.Write(content)
}

// listen says where it listens, then answers each line with the nanoseconds on a core so far, and ends with the parent.
func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var usage syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
				log.Fatal(err)
			}
			fmt.Println(usage.Utime.Nano() + usage.Stime.Nano())
		}
		os.Exit(0)
	}()
	return listener
}
