module crawler

go 1.24
