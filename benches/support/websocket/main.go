// Command websocket echoes messages, with gorilla or with gobwas, as their own examples do.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/gorilla/websocket"
)

func main() {
	echo := gorilla
	if os.Args[1] == "gobwas" {
		echo = gobwas
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go answer()
	log.Fatal(http.Serve(listener, http.HandlerFunc(echo)))
}

func gorilla(w http.ResponseWriter, request *http.Request) {
	var upgrader websocket.Upgrader
	conn, err := upgrader.Upgrade(w, request, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func gobwas(w http.ResponseWriter, request *http.Request) {
	conn, _, _, err := ws.UpgradeHTTP(request, w)
	if err != nil {
		return
	}
	go func() {
		defer conn.Close()
		for {
			message, code, err := wsutil.ReadClientData(conn)
			if err != nil || wsutil.WriteServerMessage(conn, code, message) != nil {
				return
			}
		}
	}()
}

// answer tells the benchmark, for each line, how many nanoseconds of CPU this process has taken, and ends with it.
func answer() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var usage syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		fmt.Println(usage.Utime.Nano() + usage.Stime.Nano())
	}
	os.Exit(0)
}
