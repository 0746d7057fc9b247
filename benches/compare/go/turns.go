package main

import (
	"log"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// turns are requests that are due at fixed moments, whoever is free to send them: see turns.rs. Like there, the clock
// is a timer of the kernel's, for Go sleeps whole milliseconds.
type turns struct {
	timer   *os.File
	started time.Time
	span    time.Duration
	rate    int

	// Held by who waits for the timer.
	waiting sync.Mutex
	taken   int

	recording sync.Mutex
	latencies []time.Duration
}

// latency is what the parent is told, in microseconds.
type latency struct {
	Offered  int     `json:"offered"`
	Achieved float64 `json:"achieved"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p999"`
	// OfThousand is the slowest of a thousand in a row, as it usually is.
	OfThousand float64 `json:"of_thousand"`
	Max        float64 `json:"max"`
}

func newTurns(rate int, span time.Duration) *turns {
	t := &turns{span: span, rate: rate}
	t.latencies = make([]time.Duration, 0, t.total())
	// In this order: a timer that came before a request is due would be waited for once more.
	t.started = time.Now()
	t.timer = newTimer((time.Second + time.Duration(rate) - 1) / time.Duration(rate))
	return t
}

// wait waits until a request is due, if there is one and there is time for it.
func (t *turns) wait() (due time.Time, isDue bool) {
	t.waiting.Lock()
	defer t.waiting.Unlock()
	if t.taken == t.total() || time.Since(t.started) > t.span+overtime {
		return due, false
	}
	due = t.due(t.taken)
	t.taken++
	var count [8]byte
	for time.Now().Before(due) {
		if _, err := t.timer.Read(count[:]); err != nil {
			log.Fatal(err)
		}
	}
	return due, true
}

func (t *turns) answered(due time.Time) {
	latency := time.Since(due)
	t.recording.Lock()
	t.latencies = append(t.latencies, latency)
	t.recording.Unlock()
}

func (t *turns) end() *latency {
	taken, answered := max(time.Since(t.started), t.span), len(t.latencies)
	// Who was never sent waits at least since it was due.
	for index := t.taken; index < t.total(); index++ {
		t.latencies = append(t.latencies, max(0, time.Since(t.due(index))))
	}
	var thousands []time.Duration
	for thousand := range slices.Chunk(t.latencies, 1000) {
		if len(thousand) == 1000 || len(t.latencies) < 1000 {
			thousands = append(thousands, slices.Max(thousand))
		}
	}
	slices.Sort(thousands)
	slices.Sort(t.latencies)
	at := func(quantile float64) float64 {
		index := min(int(quantile*float64(len(t.latencies))), len(t.latencies)-1)
		return float64(t.latencies[index].Nanoseconds()) / 1e3
	}
	ofThousand := 0.0
	if len(thousands) > 0 {
		ofThousand = float64(thousands[len(thousands)/2].Nanoseconds()) / 1e3
	}
	return &latency{t.rate, float64(answered) / taken.Seconds(), at(0.5), at(0.99), at(0.999), ofThousand, at(1)}
}

func (t *turns) close() {
	t.timer.Close()
}

func (t *turns) total() int {
	return int(float64(t.rate) * t.span.Seconds())
}

func (t *turns) due(index int) time.Time {
	return t.started.Add(time.Duration(float64(index) / float64(t.rate) * float64(time.Second)))
}

// overtime is how long one who is too slow may try to catch up.
const overtime = 300 * time.Millisecond

// newTimer makes a timer that can be read like a pipe, whenever so much time has passed.
func newTimer(interval time.Duration) *os.File {
	const monotonic = 1
	timer, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		log.Fatal(errno)
	}
	every := syscall.NsecToTimespec(interval.Nanoseconds())
	times := [2]syscall.Timespec{every, every}
	_, _, errno = syscall.Syscall6(
		syscall.SYS_TIMERFD_SETTIME, timer, 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if errno != 0 {
		log.Fatal(errno)
	}
	return os.NewFile(timer, "timer")
}
