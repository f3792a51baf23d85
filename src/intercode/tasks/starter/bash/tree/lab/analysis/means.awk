# mean of the first column
{ s += $1 } END { print s / NR }
