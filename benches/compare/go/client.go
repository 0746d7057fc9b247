package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// ask answers each line, a number of milliseconds and a rate, with a report: without a rate, all ask again as soon as
// they have their responses.
func ask(task string, inFlight int, address string) {
	asker := asker{&fasthttp.Client{MaxConnsPerHost: 2_000}, task, address, filler(1 << 20)}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var milliseconds, rate int
		if _, err := fmt.Sscan(lines.Text(), &milliseconds, &rate); err != nil {
			log.Fatal(err)
		}
		span := time.Duration(milliseconds) * time.Millisecond
		report := map[string]any{}
		if rate == 0 {
			before, end := allocations(), time.Now().Add(span)
			exchanges := asker.askAll(inFlight, func() bool { return time.Now().Before(end) }, func() {})
			report["closed"] = map[string]uint64{"exchanges": exchanges, "allocations": allocations() - before}
		} else {
			report["open"] = asker.askWhenDue(inFlight, rate, span)
		}
		if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
			log.Fatal(err)
		}
	}
}

type asker struct {
	client  *fasthttp.Client
	task    string
	address string
	large   []byte
}

// askWhenDue has requests sent at fixed moments: see turns.rs.
func (a *asker) askWhenDue(inFlight, rate int, span time.Duration) *latency {
	turns := newTurns(rate, span)
	defer turns.close()
	var running sync.WaitGroup
	for range inFlight {
		running.Go(func() {
			var due time.Time
			a.ask(func() (isDue bool) { due, isDue = turns.wait(); return }, func() { turns.answered(due) })
		})
	}
	running.Wait()
	return turns.end()
}

// askAll has so many ask at the same time, and returns how often they were answered.
func (a *asker) askAll(inFlight int, more func() bool, answered func()) uint64 {
	var exchanges atomic.Uint64
	var running sync.WaitGroup
	for range inFlight {
		running.Go(func() { exchanges.Add(a.ask(more, answered)) })
	}
	running.Wait()
	return exchanges.Load()
}

func (a *asker) ask(more func() bool, answered func()) (exchanges uint64) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	expected := []byte(hello)
	switch a.task {
	case "get":
		request.SetRequestURI("http://" + a.address + "/")
	case "close":
		request.SetRequestURI("http://" + a.address + "/close")
	case "down":
		request.SetRequestURI("http://" + a.address + "/large")
		expected = a.large
	case "up":
		request.SetRequestURI("http://" + a.address + "/sink")
		request.Header.SetMethod(fasthttp.MethodPost)
		request.SetBodyRaw(a.large)
	default:
		log.Fatalf("no task is called %q", a.task)
	}
	for more() {
		if err := a.client.Do(request, response); err != nil {
			log.Fatal(err)
		}
		if !isRight(response.Body(), expected) {
			log.Fatal("the response is wrong")
		}
		answered()
		exchanges++
	}
	return exchanges
}

// isRight looks at some bytes of each page: see task.rs.
func isRight(response, expected []byte) bool {
	if len(response) != len(expected) {
		return false
	}
	for at := 0; at < len(expected); at += 4 << 10 {
		end := min(at+32, len(expected))
		if !bytes.Equal(response[at:end], expected[at:end]) {
			return false
		}
	}
	return true
}

// filler is a body that shows when a part of it is missing or out of place.
func filler(length int) []byte {
	return bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), length/26+1)[:length]
}
