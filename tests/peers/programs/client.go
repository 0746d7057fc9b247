// Go's net/http: `client.go URL SIZE`.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	url := os.Args[1]
	size, err := strconv.Atoi(os.Args[2])
	check(err)
	body := bytes.Repeat([]byte("x"), size)
	for round := 0; round < 3; round++ {
		expect(url+"/hello", 200, "hello")(http.Get(url + "/hello"))
	}
	expect(url+"/hello", 200, "")(http.Head(url + "/hello"))
	expect(url+"/large", 200, string(body))(http.Get(url + "/large/" + strconv.Itoa(size)))
	expect(url+"/echo", 200, string(body))(http.Post(url+"/echo", "text/plain", bytes.NewReader(body)))
	// Of unknown length, so in chunks.
	expect(url+"/echo", 200, "one two")(http.Post(url+"/echo", "text/plain", io.MultiReader(strings.NewReader("one "), strings.NewReader("two"))))
	for path, status := range map[string]int{"/buffered": 413, "/unread": 403, "/refused": 401} {
		for round := 0; round < 3; round++ {
			response, err := http.Post(url+path, "text/plain", bytes.NewReader(body))
			check(err)
			if response.StatusCode != status {
				fail(path, response.Status)
			}
			response.Body.Close()
		}
	}
}

func expect(what string, status int, body string) func(*http.Response, error) {
	return func(response *http.Response, err error) {
		check(err)
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		check(err)
		if response.StatusCode != status || string(got) != body {
			fail(what, response.Status, len(got))
		}
	}
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(what ...any) {
	fmt.Println(what...)
	os.Exit(1)
}
