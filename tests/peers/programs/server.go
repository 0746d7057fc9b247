// What `origin.rs` answers, from Go. Prints its port, and ends with its standard input.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	http.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	http.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	})
	http.HandleFunc("/large/", func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/large/"))
		w.Write(bytes.Repeat([]byte("x"), size))
	})
	for path, status := range map[string]int{"/buffered": 413, "/unread": 403, "/refused": 401} {
		status := status
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go http.Serve(listener, nil)
	io.Copy(io.Discard, os.Stdin)
}
