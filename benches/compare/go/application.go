package main

import "bytes"

// What every server answers: see application.rs.
const (
	hello      = "Hello, world!"
	serverName = "compare"
	pieces     = 16
)

var piece = bytes.Repeat([]byte("x"), 4<<10)

type page struct {
	ID    uint32   `json:"id"`
	Title string   `json:"title"`
	Tags  []string `json:"tags"`
	Items []item   `json:"items"`
	Next  *string  `json:"next"`
	Note  string   `json:"note"`
}

type item struct {
	SKU     uint32 `json:"sku"`
	Name    string `json:"name"`
	Price   uint32 `json:"price"`
	Stock   uint32 `json:"stock"`
	SoldOut bool   `json:"sold_out"`
}

func newPage() *page {
	items := make([]item, 10)
	for i := range items {
		at := uint32(i)
		items[i] = item{100_001 + at, "A cup of black coffee", 1_250 + at, 17 + at, i == 3}
	}
	return &page{
		ID:    4_711,
		Title: "Things to drink and to eat",
		Tags:  []string{"coffee", "tea", "cake", "water"},
		Items: items,
		Note:  "Prices are in cents and include tax.",
	}
}
