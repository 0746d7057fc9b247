package main

import (
	"bufio"
	"log"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fasthttp/router"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

// serveObserved has the route of src/observing. With the path of a log it writes a line for each request, and counts it.
func serveObserved(listener net.Listener, path string) {
	routes := router.New()
	// Only routes that are added after it are saved.
	routes.SaveMatchedRoutePath = path != ""
	routes.GET("/users/{id}", func(ctx *fasthttp.RequestCtx) {
		if _, err := strconv.ParseUint(ctx.UserValue("id").(string), 10, 32); err != nil {
			ctx.Error("not found", fasthttp.StatusNotFound)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(hello)
	})
	handler := routes.Handler
	if path != "" {
		routes.GET("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.Handler()))
		handler = openAccessLog(path).around(counted(routes.Handler))
	}
	server := fasthttp.Server{Name: serverName, Handler: handler}
	log.Fatal(server.Serve(listener))
}

func counted(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	opts := prometheus.HistogramOpts{Name: "http_request_duration_seconds", Buckets: prometheus.DefBuckets}
	durations := prometheus.NewHistogramVec(opts, []string{"method", "route", "status"})
	prometheus.MustRegister(durations)
	return func(ctx *fasthttp.RequestCtx) {
		start := time.Now()
		next(ctx)
		route, _ := ctx.UserValue(router.MatchedRoutePathParam).(string)
		status := strconv.Itoa(ctx.Response.StatusCode())
		durations.WithLabelValues(string(ctx.Method()), route, status).Observe(time.Since(start).Seconds())
	}
}

// An accessLog writes lines in the combined format, through a buffer that is written when it is full, and each second.
type accessLog struct {
	mutex sync.Mutex
	lines *bufio.Writer
	line  []byte
}

func openAccessLog(path string) *accessLog {
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	access := &accessLog{lines: bufio.NewWriterSize(file, 64<<10)}
	go func() {
		for range time.Tick(time.Second) {
			access.mutex.Lock()
			if err := access.lines.Flush(); err != nil {
				log.Fatal(err)
			}
			access.mutex.Unlock()
		}
	}()
	return access
}

func (a *accessLog) around(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		next(ctx)
		now := time.Now()
		a.mutex.Lock()
		defer a.mutex.Unlock()
		line := append(a.line[:0], ctx.RemoteIP().String()...)
		line = append(line, " - - ["...)
		line = now.AppendFormat(line, "02/Jan/2006:15:04:05 -0700")
		line = append(line, "] \""...)
		line = append(line, ctx.Method()...)
		line = append(line, ' ')
		line = append(line, ctx.RequestURI()...)
		line = append(line, " HTTP/1.1\" "...)
		line = strconv.AppendInt(line, int64(ctx.Response.StatusCode()), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(len(ctx.Response.Body())), 10)
		line = append(line, ' ')
		line = strconv.AppendQuote(line, string(ctx.Referer()))
		line = append(line, ' ')
		line = strconv.AppendQuote(line, string(ctx.UserAgent()))
		a.line = append(line, '\n')
		// An error stays with the buffer, and ends the program at the next flush.
		_, _ = a.lines.Write(a.line)
	}
}
