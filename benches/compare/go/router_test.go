// What does fasthttp/router cost above its bare handler, with the routes and the request of ../../router.rs?
//
//	go test -bench Router -benchmem
//
// Nothing is parsed or sent: the request stands in a context, and the handler is called. The distance of the two rows is
// the cost of the router, with two parameters read.
package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

func BenchmarkRouterBare(b *testing.B) {
	call(b, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("Hello, world!") })
}

func BenchmarkRouter(b *testing.B) {
	call(b, routes(b).Handler)
}

func routes(b *testing.B) *router.Router {
	source, err := os.ReadFile("../../support/github_api.rs")
	if err != nil {
		b.Fatal(err)
	}
	all := router.New()
	for _, route := range regexp.MustCompile(`(?m)^ +([A-Z]+) "(\S+)",$`).FindAllStringSubmatch(string(source), -1) {
		all.Handle(route[1], strings.ReplaceAll(route[2], "{*path}", "{path:*}"), show)
	}
	return all
}

func show(ctx *fasthttp.RequestCtx) {
	owner, repo := ctx.UserValue("owner").(string), ctx.UserValue("repo").(string)
	if len(owner)+len(repo) != len("rust-lang")+len("cargo") {
		panic("the parameters are others")
	}
	ctx.SetBodyString("Hello, world!")
}

func call(b *testing.B, handler fasthttp.RequestHandler) {
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI("/repos/rust-lang/cargo/stargazers")
	ctx.Request.Header.SetMethod("GET")
	b.ReportAllocs()
	for b.Loop() {
		handler(&ctx)
		ctx.ResetUserValues()
		ctx.Response.ResetBody()
	}
	if ctx.Response.StatusCode() != 200 {
		b.Fatal("the router finds the handler")
	}
}
