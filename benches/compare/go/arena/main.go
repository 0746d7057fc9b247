// Command arena is the arena's application on fasthttp, with its router, pgx and fasthttp's own files.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fasthttp/router"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
)

type rating struct {
	Score int `json:"score"`
	Count int `json:"count"`
}

type item struct {
	ID       int             `json:"id"`
	Name     string          `json:"name"`
	Category string          `json:"category"`
	Price    int             `json:"price"`
	Quantity int             `json:"quantity"`
	Active   bool            `json:"active"`
	Tags     json.RawMessage `json:"tags"`
	Rating   rating          `json:"rating"`
}

type page struct {
	Items []item `json:"items"`
	Count int    `json:"count"`
}

type datasetItem struct {
	item
	Tags []string `json:"tags"`
}

type application struct {
	items []datasetItem
	pool  *pgxpool.Pool
	mu    sync.Mutex
	cache map[int]cached
}

type cached struct {
	since time.Time
	body  []byte
}

const lifetime = 200 * time.Millisecond

func main() {
	app := &application{cache: map[int]cached{}}
	data := variable("DATA", "/data")
	text, err := os.ReadFile(filepath.Join(data, "dataset.json"))
	if err != nil {
		log.Fatal(err)
	}
	if err := json.Unmarshal(text, &app.items); err != nil {
		log.Fatal(err)
	}
	if url := os.Getenv("DATABASE_URL"); url != "" {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			log.Fatal(err)
		}
		max, _ := strconv.Atoi(variable("DATABASE_MAX_CONN", "256"))
		config.MaxConns = int32(max)
		if app.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
			log.Fatal(err)
		}
	}
	files := &fasthttp.FS{
		Root:           filepath.Join(data, "static"),
		PathRewrite:    fasthttp.NewPathSlashesStripper(1),
		Compress:       true,
		CompressBrotli: true,
	}

	routes := router.New()
	routes.GET("/baseline11", app.sum)
	routes.POST("/baseline11", app.sum)
	routes.GET("/pipeline", func(ctx *fasthttp.RequestCtx) { text200(ctx, "ok") })
	routes.GET("/json/{count}", fasthttp.CompressHandlerBrotliLevel(app.json, fasthttp.CompressBrotliDefaultCompression, fasthttp.CompressDefaultCompression))
	routes.POST("/upload", upload)
	routes.GET("/static/{name}", files.NewRequestHandler())
	routes.GET("/async-db", app.byPrice)
	routes.GET("/crud/items", app.list)
	routes.POST("/crud/items", app.save)
	routes.GET("/crud/items/{id}", app.show)
	routes.PUT("/crud/items/{id}", app.replace)

	server := &fasthttp.Server{Handler: routes.Handler, StreamRequestBody: true, MaxRequestBodySize: 25 << 20}
	certs := variable("CERTS", "/certs")
	if _, err := os.Stat(certs); err == nil {
		identity, err := tls.LoadX509KeyPair(filepath.Join(certs, "server.crt"), filepath.Join(certs, "server.key"))
		if err != nil {
			log.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{identity}, NextProtos: []string{"http/1.1"}}
		listener, err := tls.Listen("tcp4", "0.0.0.0:"+variable("TLS_PORT", "8081"), config)
		if err != nil {
			log.Fatal(err)
		}
		go func() { log.Fatal(server.Serve(listener)) }()
	}
	log.Fatal(server.ListenAndServe("0.0.0.0:" + variable("PORT", "8080")))
}

func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func text200(ctx *fasthttp.RequestCtx, text string) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString(text)
}

func json200(ctx *fasthttp.RequestCtx, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

// number reads a number of the query, or is what it is otherwise.
func number(ctx *fasthttp.RequestCtx, name string, otherwise int) int {
	value, err := strconv.Atoi(string(ctx.QueryArgs().Peek(name)))
	if err != nil {
		return otherwise
	}
	return value
}

func (app *application) sum(ctx *fasthttp.RequestCtx) {
	sum := number(ctx, "a", 0) + number(ctx, "b", 0)
	if ctx.IsPost() {
		body, err := strconv.Atoi(strings.TrimSpace(string(ctx.Request.Body())))
		if err != nil {
			ctx.Error("no number", fasthttp.StatusBadRequest)
			return
		}
		sum += body
	}
	text200(ctx, strconv.Itoa(sum))
}

func (app *application) json(ctx *fasthttp.RequestCtx) {
	count, err := strconv.Atoi(ctx.UserValue("count").(string))
	if err != nil {
		ctx.NotFound()
		return
	}
	items, m := app.items[:min(count, len(app.items))], number(ctx, "m", 1)
	priced := make([]pricedItem, len(items))
	for i := range items {
		priced[i] = pricedItem{&items[i], items[i].Price * items[i].Quantity * m}
	}
	json200(ctx, pricedPage{priced, len(priced)})
}

type pricedItem struct {
	*datasetItem
	Total int `json:"total"`
}

type pricedPage struct {
	Items []pricedItem `json:"items"`
	Count int          `json:"count"`
}

func upload(ctx *fasthttp.RequestCtx) {
	n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	text200(ctx, strconv.FormatInt(n, 10))
}

func (app *application) query(sql string, values ...any) ([]item, error) {
	rows, err := app.pool.Query(context.Background(), sql, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	items := []item{}
	for rows.Next() {
		var it item
		if err := rows.Scan(&it.ID, &it.Name, &it.Category, &it.Price, &it.Quantity, &it.Active, &it.Tags, &it.Rating.Score, &it.Rating.Count); err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, rows.Err()
}

func (app *application) byPrice(ctx *fasthttp.RequestCtx) {
	items := []item{}
	if app.pool != nil {
		limit := min(max(number(ctx, "limit", 50), 1), 50)
		found, err := app.query("SELECT * FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3", number(ctx, "min", 10), number(ctx, "max", 50), limit)
		if err == nil {
			items = found
		}
	}
	json200(ctx, page{items, len(items)})
}

func (app *application) list(ctx *fasthttp.RequestCtx) {
	category := string(ctx.QueryArgs().Peek("category"))
	if category == "" {
		category = "electronics"
	}
	page, limit := max(number(ctx, "page", 1), 1), min(max(number(ctx, "limit", 10), 1), 50)
	items, err := app.query("SELECT * FROM items WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3", category, limit, (page-1)*limit)
	if err != nil {
		unavailable(ctx, err)
		return
	}
	json200(ctx, struct {
		Items []item `json:"items"`
		Total int    `json:"total"`
		Page  int    `json:"page"`
		Limit int    `json:"limit"`
	}{items, len(items), page, limit})
}

func unavailable(ctx *fasthttp.RequestCtx, err error) {
	ctx.Error(err.Error(), fasthttp.StatusServiceUnavailable)
}

func (app *application) show(ctx *fasthttp.RequestCtx) {
	id, err := strconv.Atoi(ctx.UserValue("id").(string))
	if err != nil {
		ctx.NotFound()
		return
	}
	app.mu.Lock()
	kept, ok := app.cache[id]
	app.mu.Unlock()
	if ok && time.Since(kept.since) < lifetime {
		ctx.SetContentType("application/json")
		ctx.Response.Header.Set("X-Cache", "HIT")
		ctx.SetBody(kept.body)
		return
	}
	items, err := app.query("SELECT * FROM items WHERE id = $1", id)
	if err != nil {
		unavailable(ctx, err)
		return
	}
	if len(items) == 0 {
		ctx.NotFound()
		return
	}
	json200(ctx, items[0])
	ctx.Response.Header.Set("X-Cache", "MISS")
	body := append([]byte(nil), ctx.Response.Body()...)
	app.mu.Lock()
	app.cache[id] = cached{time.Now(), body}
	app.mu.Unlock()
}

type draft struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Category string `json:"category"`
	Price    int    `json:"price"`
	Quantity int    `json:"quantity"`
}

func (app *application) save(ctx *fasthttp.RequestCtx) {
	app.write(ctx, 0, `INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '["new"]', 0, 0)
		ON CONFLICT (id) DO UPDATE SET name = $2, category = $3, price = $4, quantity = $5 RETURNING *`)
	if ctx.Response.StatusCode() == fasthttp.StatusOK {
		ctx.SetStatusCode(fasthttp.StatusCreated)
	}
}

func (app *application) replace(ctx *fasthttp.RequestCtx) {
	id, err := strconv.Atoi(ctx.UserValue("id").(string))
	if err != nil {
		ctx.NotFound()
		return
	}
	app.write(ctx, id, "UPDATE items SET name = $2, category = $3, price = $4, quantity = $5 WHERE id = $1 RETURNING *")
}

func (app *application) write(ctx *fasthttp.RequestCtx, id int, sql string) {
	var it draft
	if err := json.Unmarshal(ctx.Request.Body(), &it); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	if id != 0 {
		it.ID = id
	}
	items, err := app.query(sql, it.ID, it.Name, it.Category, it.Price, it.Quantity)
	if err != nil {
		unavailable(ctx, err)
		return
	}
	if len(items) == 0 {
		ctx.NotFound()
		return
	}
	app.mu.Lock()
	delete(app.cache, it.ID)
	app.mu.Unlock()
	json200(ctx, it)
}
