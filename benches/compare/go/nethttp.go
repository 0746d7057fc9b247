package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
)

func serveNetHTTP(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, "text/plain")
		io.WriteString(w, hello)
	})
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		text(w, "text/plain")
		w.Header().Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return
		}
		w.Write(body)
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, _ *http.Request) {
		text(w, "application/json")
		body, err := json.Marshal(newPage())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write(body)
	})
	mux.HandleFunc("GET /download", func(w http.ResponseWriter, _ *http.Request) {
		text(w, "text/plain")
		for range pieces {
			w.Write(piece)
		}
	})
	mux.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text(w, "text/plain")
		io.WriteString(w, strconv.FormatInt(n, 10))
	})
	log.Fatal(http.Serve(listener, mux))
}

func text(w http.ResponseWriter, contentType string) {
	header := w.Header()
	header.Set("Server", serverName)
	header.Set("Content-Type", contentType)
}
