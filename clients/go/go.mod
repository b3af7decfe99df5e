module evenkeel

go 1.21
