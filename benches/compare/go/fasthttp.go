package main

import (
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
		// Not copied: the request stays until its response is written.
		ctx.Response.SetBodyRaw(ctx.PostBody())
	case path == "/json":
		ctx.SetContentType("application/json")
		body, err := json.Marshal(newPage())
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
			return
		}
		ctx.SetBody(body)
	case path == "/download":
		ctx.SetBodyStream(&download{left: pieces}, -1)
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

// download is read piece by piece, which takes fasthttp less than being written to from a goroutine.
type download struct{ left int }

func (d *download) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	d.left--
	return copy(p, piece), nil
}
