package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// ask answers each line, a number of milliseconds, with how many exchanges it had in that time and how many
// allocations they took.
func ask(task string, inFlight int, address string) {
	client := &fasthttp.Client{MaxConnsPerHost: 2_000}
	large := filler(1 << 20)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		milliseconds, err := strconv.Atoi(lines.Text())
		if err != nil {
			log.Fatal(err)
		}
		before, end := allocations(), time.Now().Add(time.Duration(milliseconds)*time.Millisecond)
		var exchanges atomic.Uint64
		var running sync.WaitGroup
		for range inFlight {
			running.Go(func() { exchanges.Add(askUntil(client, end, task, address, large)) })
		}
		running.Wait()
		fmt.Println(exchanges.Load(), allocations()-before)
	}
}

func askUntil(client *fasthttp.Client, end time.Time, task, address string, large []byte) (exchanges uint64) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	expected := []byte(hello)
	switch task {
	case "get":
		request.SetRequestURI("http://" + address + "/")
	case "close":
		request.SetRequestURI("http://" + address + "/close")
	case "down":
		request.SetRequestURI("http://" + address + "/large")
		expected = large
	case "up":
		request.SetRequestURI("http://" + address + "/sink")
		request.Header.SetMethod(fasthttp.MethodPost)
		request.SetBodyRaw(large)
	default:
		log.Fatalf("no task is called %q", task)
	}
	for time.Now().Before(end) {
		if err := client.Do(request, response); err != nil {
			log.Fatal(err)
		}
		if !bytes.Equal(response.Body(), expected) {
			log.Fatal("the answer is wrong")
		}
		exchanges++
	}
	return exchanges
}

// filler is a body that shows when a part of it is missing or out of place.
func filler(length int) []byte {
	return bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), length/26+1)[:length]
}
