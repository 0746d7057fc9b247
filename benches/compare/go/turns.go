package main

import (
	"log"
	"math"
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

// latency is what the parent is told, in microseconds: see latency.rs.
type latency struct {
	Offered  int      `json:"offered"`
	Requests int      `json:"requests"`
	Achieved float64  `json:"achieved"`
	P50      float64  `json:"p50"`
	P99      *float64 `json:"p99"`
	P999     *float64 `json:"p999"`
	// OfThousand is the slowest of a thousand in a row, as it usually is.
	OfThousand *float64 `json:"of_thousand"`
	Max        float64  `json:"max"`
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
	report := &latency{Offered: t.rate, Requests: len(t.latencies), Achieved: float64(answered) / taken.Seconds()}
	report.OfThousand = ofThousand(t.latencies)
	slices.Sort(t.latencies)
	report.P50, report.Max = *quantile(t.latencies, 1, 0.5), *quantile(t.latencies, 1, 1)
	report.P99, report.P999 = quantile(t.latencies, 100, 0.99), quantile(t.latencies, 1000, 0.999)
	return report
}

// quantile is that of the nearest rank, unless there are too few.
func quantile(sorted []time.Duration, least int, quantile float64) *float64 {
	if len(sorted) < least {
		return nil
	}
	rank := int(math.Ceil(quantile * float64(len(sorted))))
	micros := microseconds(sorted[max(rank, 1)-1])
	return &micros
}

// ofThousand is the median over the slowest of each thousand.
func ofThousand(latencies []time.Duration) *float64 {
	var slowest []time.Duration
	for thousand := range slices.Chunk(latencies, 1000) {
		if len(thousand) == 1000 {
			slowest = append(slowest, slices.Max(thousand))
		}
	}
	if len(slowest) == 0 {
		return nil
	}
	slices.Sort(slowest)
	median := (microseconds(slowest[(len(slowest)-1)/2]) + microseconds(slowest[len(slowest)/2])) / 2
	return &median
}

func microseconds(time time.Duration) float64 {
	return float64(time.Nanoseconds()) / 1e3
}

func (t *turns) close() {
	t.timer.Close()
}

func (t *turns) total() int {
	return int(math.Round(float64(t.rate) * t.span.Seconds()))
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
