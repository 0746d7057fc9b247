//! Heads of requests that come in practice.

/// fasthttp's GET: four fields, 205 bytes.
pub const GET: &str = "GET /foobar?baz HTTP/1.1\r\n\
    Host: google.com\r\n\
    User-Agent: aaa/bbb/ccc/ddd/eee Firefox Chrome MSIE Opera\r\n\
    Referer: http://example.com/aaa?bbb=ccc\r\n\
    Cookie: foo=bar; baz=baraz; aa=aakslsdweriwereowriewroire\r\n\r\n";

/// Chrome 131 on Windows, a page at a site that set two cookies: 17 fields.
pub const CHROME: &str = "GET /articles/2024/11/benchmarks?utm_source=feed HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: max-age=0\r\n\
    sec-ch-ua: \"Google Chrome\";v=\"131\", \"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Windows\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/131.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
    application/signed-exchange;v=b3;q=0.7\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://www.example.com/articles/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark\r\n\r\n";

/// Firefox 132 on Linux, an image: 11 fields.
pub const FIREFOX: &str = "GET /static/img/logo.webp HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\r\n\
    Accept: image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Referer: https://www.example.com/\r\n\
    Sec-Fetch-Dest: image\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=5, i\r\n\r\n";

/// curl 8: 3 fields.
pub const CURL: &str = "GET / HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: curl/8.11.0\r\n\
    Accept: */*\r\n\r\n";
