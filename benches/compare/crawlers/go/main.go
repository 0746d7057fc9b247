// Command crawler is the crawler with net/http. Retries are its own.
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	atOnce      = 200
	pagesMax    = 100_000
	attemptsMax = 3
)

var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{MaxIdleConns: atOnce, MaxIdleConnsPerHost: atOnce},
}

type result struct {
	links []string
	err   error
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crawler URL")
		os.Exit(1)
	}
	results := make(chan result)
	known := map[string]bool{os.Args[1]: true}
	due := []string{os.Args[1]}
	pages, failed := 0, 0
	for fetching := 0; len(due) > 0 || fetching > 0; {
		for ; len(due) > 0 && fetching < atOnce; fetching++ {
			link := due[len(due)-1]
			due = due[:len(due)-1]
			go func() {
				links, err := linksOf(link)
				results <- result{links, err}
			}()
		}
		fetched := <-results
		fetching--
		if fetched.err != nil {
			failed++
			fmt.Fprintln(os.Stderr, fetched.err)
			continue
		}
		pages++
		for _, link := range fetched.links {
			if len(known) < pagesMax && !known[link] {
				known[link] = true
				due = append(due, link)
			}
		}
	}
	fmt.Printf("%d pages, %d failed\n", pages, failed)
}

// linksOf fetches a page, and returns what it links to on the same site.
func linksOf(link string) ([]string, error) {
	page, text, err := retry(link)
	if err != nil {
		return nil, err
	}
	var links []string
	for _, rest := range strings.Split(text, `href="`)[1:] {
		reference, _, _ := strings.Cut(rest, `"`)
		link, err := page.Parse(reference)
		if err == nil && link.Scheme == page.Scheme && link.Host == page.Host {
			link.Fragment = ""
			links = append(links, link.String())
		}
	}
	return links, nil
}

// retry fetches a page, and again if it is not to be had for a moment.
func retry(link string) (page *url.URL, text string, err error) {
	for attempt := 1; ; attempt++ {
		var isTransient bool
		page, text, isTransient, err = fetchOnce(link)
		if err == nil || !isTransient || attempt == attemptsMax {
			return page, text, err
		}
		time.Sleep(rand.N(100 * time.Millisecond << (attempt - 1)))
	}
}

func fetchOnce(link string) (page *url.URL, text string, isTransient bool, err error) {
	response, err := client.Get(link)
	if err != nil {
		return nil, "", true, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, "", true, err
	}
	if response.StatusCode >= 400 {
		isTransient = response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests
		return nil, "", isTransient, fmt.Errorf("%s: %s", link, response.Status)
	}
	return response.Request.URL, string(body), false, nil
}
