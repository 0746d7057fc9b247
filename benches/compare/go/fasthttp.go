package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"net"
	"strconv"

	"github.com/valyala/fasthttp"
)

func serveFasthttp(listener net.Listener, stream bool) {
	server := fasthttp.Server{Name: serverName, Handler: fasthttpHandler, StreamRequestBody: stream}
	log.Fatal(server.Serve(listener))
}

func fasthttpHandler(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain")
	switch path := string(ctx.Path()); {
	case ctx.IsGet() && path == "/":
		ctx.SetBodyString(hello)
	case ctx.IsPost() && path == "/":
		ctx.SetBody(ctx.PostBody())
	case path == "/json":
		ctx.SetContentType("application/json")
		body, err := json.Marshal(newPage())
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetBody(body)
	case path == "/download":
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range pieces {
				w.Write(piece)
			}
		})
	case path == "/upload":
		n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
		ctx.SetBodyString(strconv.FormatInt(n, 10))
	default:
		ctx.Error("not found", fasthttp.StatusNotFound)
	}
}
